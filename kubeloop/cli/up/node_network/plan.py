# SPDX-License-Identifier: Apache-2.0
"""Flags of the three programs of a node's network: defaults of `kubeloop up`, then those of the user."""

from __future__ import annotations

import argparse
import hashlib
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kubeloop.apiserver.server import StartupError
from kubeloop.cli.dns.flags import add_flags as add_dns_flags
from kubeloop.cli.network.flags import add_flags as add_network_flags
from kubeloop.cli.program.parser import CommandParser
from kubeloop.cli.proxy.flags import ProxyOptions, proxy_options_of
from kubeloop.cli.proxy.flags import add_flags as add_proxy_flags
from kubeloop.cli.up.node_network.requirements import CniFolders
from kubeloop.dns.forward.addresses import read_resolv_conf
from kubeloop.dns.kube_dns_service import KubeDnsError, dns_service_ip
from kubeloop.proxy.config.configuration import HEALTHZ_PORT, METRICS_PORT
from kubeloop.runtime.component_config import ComponentConfigError

_RUN: Final = Path("/run/kubeloop-network")
_NETWORK_PORT: Final = 10261
_DNS_PORT: Final = 53
_DNS_METRICS_PORT: Final = 9153
_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
_RESOLV_CONF: Final = Path("/etc/resolv.conf")
_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")  # with pods and nodes, the clients of DNS
_UPSTREAM_FLAGS: Final = ("upstream", "resolv-conf")


class NodeNetworkPlan(NamedTuple):
    """Settings of the network of the real node."""

    cluster_cidr: str
    service_range: str
    dns_ip: str  # cluster IP of the Service kube-dns
    network_arguments: tuple[str, ...] = ()
    proxy_arguments: tuple[str, ...] = ()
    dns_arguments: tuple[str, ...] = ()


def new_network_plan(
    cluster_cidr: str,
    service_range: str,
    network_arguments: tuple[str, ...] = (),
    proxy_arguments: tuple[str, ...] = (),
    dns_arguments: tuple[str, ...] = (),
) -> NodeNetworkPlan:
    """Return the plan. Raises `StartupError` if the service range has no address for DNS."""
    try:
        dns_ip = dns_service_ip(service_range.partition(",")[0])
    except KubeDnsError as error:
        raise StartupError(f"--service-cluster-ip-range: {error}") from None
    return NodeNetworkPlan(cluster_cidr, service_range, dns_ip, network_arguments, proxy_arguments, dns_arguments)


class NodeIdentity(NamedTuple):
    """Node, and what its programs need to know of the cluster."""

    name: str
    address: str
    endpoint: str  # of the container runtime
    kubeconfig: Path
    folder: Path  # for files of the network


class ProgramOptions(NamedTuple):
    """Parsed flags of the three programs."""

    network: argparse.Namespace
    proxy: argparse.Namespace
    proxy_options: ProxyOptions
    dns: argparse.Namespace


def program_options(plan: NodeNetworkPlan, node: NodeIdentity, cni: CniFolders) -> ProgramOptions:
    """Return the flags of the programs. Raises `StartupError` for flags that contradict each other."""
    network = _parsed("network", add_network_flags, _network_flags(node, cni), plan.network_arguments)
    proxy = _parsed("proxy", add_proxy_flags, _proxy_flags(plan, node), plan.proxy_arguments)
    dns = _parsed("dns", add_dns_flags, _dns_flags(plan, node), plan.dns_arguments)
    try:
        return ProgramOptions(network, proxy, proxy_options_of(proxy), dns)
    except ComponentConfigError as error:
        raise StartupError(f"--proxy-arg: {error}") from None


def free_port(address: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return the port, or 0 if another program has it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as probe:
        if kind == socket.SOCK_STREAM:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return 0
    return port


def upstreams_of(resolv_conf: str, own: Sequence[str]) -> list[str]:
    """Return the name servers of a resolv.conf without those that lead back to this server."""
    return [host for host, _ in read_resolv_conf(resolv_conf) if host not in own]


def run_folder(data: Path) -> Path:
    """Return the folder for the sockets of a cluster's network; its path is short, as those of sockets have to be."""
    return _RUN / hashlib.sha256(str(data.absolute()).encode()).hexdigest()[:12]


def _network_flags(node: NodeIdentity, cni: CniFolders) -> tuple[str, ...]:
    return (
        *("--kubeconfig", str(node.kubeconfig), "--node-name", node.name, "--run-dir", str(run_folder(node.folder))),
        *("--cni-conf-dir", str(cni.configurations), "--cni-bin-dir", str(cni.plugins)),
        *("--cni-data-dir", str(node.folder / "addresses"), "--container-runtime-endpoint", node.endpoint),
        *("--healthz-port", str(free_port("127.0.0.1", _NETWORK_PORT))),
    )


def _proxy_flags(plan: NodeNetworkPlan, node: NodeIdentity) -> tuple[str, ...]:
    return (
        *("--kubeconfig", str(node.kubeconfig), "--hostname-override", node.name, "--cluster-cidr", plan.cluster_cidr),
        *("--healthz-port", str(free_port("0.0.0.0", HEALTHZ_PORT))),
        *("--metrics-port", str(free_port("127.0.0.1", METRICS_PORT))),
        *("--oom-score-adj", _oom_score()),
    )


def _dns_flags(plan: NodeNetworkPlan, node: NodeIdentity) -> tuple[str, ...]:
    is_free = all(free_port(node.address, _DNS_PORT, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM))
    return (
        *("--kubeconfig", str(node.kubeconfig), "--bind-address", node.address),
        *("--port", str(_DNS_PORT if is_free else 0), "--health-port", "0", "--ready-port", "0"),
        *("--metrics-port", str(free_port(node.address, _DNS_METRICS_PORT)), "--lameduck", "0s"),
        *(text for one in (*plan.cluster_cidr.split(","), *_LOOPBACK) for text in ("--allow-from", one)),
        *_upstream_flags(plan, node),
    )


def _upstream_flags(plan: NodeNetworkPlan, node: NodeIdentity) -> tuple[str, ...]:
    """Return the upstream resolvers of this machine, unless the user has given others."""
    names = (one.lstrip("-").partition("=")[0] for one in plan.dns_arguments)
    if any(name in _UPSTREAM_FLAGS for name in names):
        return ()
    try:
        text = _RESOLV_CONF.read_text()
    except OSError:
        text = ""
    flags = [one for host in upstreams_of(text, (node.address, plan.dns_ip)) for one in ("--upstream", host)]
    return tuple(flags) or ("--resolv-conf", "")


def _oom_score() -> str:
    """Return the present OOM score of this process, which is not only the proxy's."""
    try:
        return _OOM_SCORE.read_text().strip()
    except OSError:
        return "0"


def _parsed(
    name: str, add: Callable[[argparse.ArgumentParser], None], usual: Sequence[str], given: Sequence[str]
) -> argparse.Namespace:
    parser = CommandParser(prog=f"kubeloop {name}")
    add(parser)
    return parser.parse_args([*usual, *(one if one.startswith("-") else f"--{one}" for one in given)])
