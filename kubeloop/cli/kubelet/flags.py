# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop kubelet`: kubelet's names where it has the flag, and its configuration file's defaults."""

from __future__ import annotations

import argparse
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.cli.flags.types import address, boolean, duration, non_negative_count, port, positive_count
from kubeloop.cli.local_clusters.registry import state_dir
from kubeloop.cli.program.logs import add_log_flags
from kubeloop.kubelet.eviction.signals import DEFAULT_EVICTION_HARD, HardThreshold, parse_eviction_hard

_ABOUT = """Run one node, or many simulated nodes, against an API server. Without --nodes it only needs the permissions
of that node (user system:node:NAME of group system:nodes)."""
_EXAMPLES = """Examples:
  # One node
  kubeloop kubelet --kubeconfig kubelet.conf --hostname-override n1

  # A hundred simulated nodes
  kubeloop kubelet --kubeconfig admin.conf --nodes 100
"""
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Node names: one, or a number of names with a prefix."""

    one: str
    count: int
    prefix: str

    @property
    def all(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return tuple(f"{self.prefix}{number}" for number in range(1, self.count + 1)) if self.count else (self.one,)


def names_of(options: argparse.Namespace) -> NodeNames:
    """Build the node names from flags. Raises ValueError."""
    if options.nodes and options.hostname_override:
        raise ValueError("--hostname-override and --nodes are mutually exclusive")
    names = NodeNames(
        options.hostname_override or socket.gethostname().lower(), options.nodes, options.node_name_prefix
    )
    if not _NAME.fullmatch(names.all[0]):
        raise ValueError(f"{names.all[0]!r} is not a valid node name")
    return names


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    _add_identity_flags(parser)
    _add_node_flags(parser)
    _add_runtime_flags(parser)
    _add_garbage_collection_flags(parser)
    _add_port_flags(parser)
    _add_access_flags(parser)
    add_log_flags(parser)
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def _add_identity_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="kubeconfig with the API server and the credentials"
    )
    parser.add_argument(
        "--bootstrap-kubeconfig",
        type=Path,
        help="kubeconfig that is used to request a client certificate if --kubeconfig does not exist",
    )
    parser.add_argument(
        "--hostname-override", default="", metavar="NAME", help="name of the node (default: the host name)"
    )
    parser.add_argument(
        "--nodes", type=non_negative_count, default=0, metavar="N", help="number of simulated nodes to run: n1, n2, …"
    )
    parser.add_argument(
        "--node-name-prefix", default="n", metavar="TEXT", help="prefix of the names of simulated nodes"
    )
    parser.add_argument(
        "--kube-api-qps",
        type=non_negative_count,
        default=None,
        metavar="N",
        help="requests per second to the API server (default: 50; unlimited with --nodes)",
    )
    parser.add_argument(
        "--kube-api-burst",
        type=positive_count,
        default=100,
        metavar="N",
        help="burst of requests to the API server (default: 100)",
    )


def _add_runtime_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--container-runtime-endpoint",
        default="",
        metavar="unix://PATH",
        help="socket of a container runtime (CRI): run real containers, on one node",
    )
    parser.add_argument(
        "--runtime-request-timeout",
        type=duration,
        default=120.0,
        metavar="DURATION",
        help="time limit of calls to the container runtime (default: 2m0s)",
    )
    parser.add_argument(
        "--root-dir",
        type=Path,
        default=Path("/var/lib/kubelet"),
        help="folder of the volumes and files of real pods (default: /var/lib/kubelet)",
    )
    parser.add_argument(
        "--pod-logs-dir",
        type=Path,
        default=Path("/var/log/pods"),
        help="folder of the logs of real pods (default: /var/log/pods)",
    )
    parser.add_argument(
        "--cgroup-root", default="/", metavar="PATH", help="control group above those of real pods (default: /)"
    )
    parser.add_argument(
        "--cluster-dns", type=addresses, default=(), metavar="IP,…", help="name servers of pods (default: the node's)"
    )
    parser.add_argument(
        "--cluster-domain",
        default="cluster.local",
        metavar="NAME",
        help="domain of the cluster (default: cluster.local)",
    )
    parser.add_argument(
        "--resolv-conf",
        type=Path,
        default=Path("/etc/resolv.conf"),
        help="resolver configuration of the node (default: /etc/resolv.conf)",
    )


def _add_garbage_collection_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--container-log-max-size",
        type=quantity,
        default=10 << 20,
        metavar="QUANTITY",
        help="size from which the log of a real container is rotated (default: 10Mi)",
    )
    parser.add_argument(
        "--container-log-max-files",
        type=log_file_count,
        default=5,
        metavar="N",
        help="log files of a real container that are kept, at least 2 (default: 5)",
    )
    parser.add_argument(
        "--eviction-hard",
        type=eviction_thresholds,
        default=parse_eviction_hard(DEFAULT_EVICTION_HARD),
        metavar="SIGNAL<VALUE,…",
        help=f"thresholds for the eviction of real pods (default: {DEFAULT_EVICTION_HARD})".replace("%", "%%"),
    )
    parser.add_argument(
        "--image-gc-high-threshold",
        type=percent,
        default=85,
        metavar="PERCENT",
        help="usage of the disk from which unused images are removed (default: 85)",
    )
    parser.add_argument(
        "--image-gc-low-threshold",
        type=percent,
        default=80,
        metavar="PERCENT",
        help="usage of the disk to which unused images are removed (default: 80)",
    )
    parser.add_argument(
        "--minimum-image-ttl-duration",
        type=duration,
        default=120.0,
        metavar="DURATION",
        help="least age of an unused image that is removed (default: 2m0s)",
    )


def quantity(text: str) -> int:
    """Parse a positive quantity such as 10Mi."""
    try:
        found = parse_quantity(text).value()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity: {error}") from None
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not positive")
    return found


def eviction_thresholds(text: str) -> tuple[HardThreshold, ...]:
    """Parse thresholds such as memory.available<100Mi,nodefs.available<10%."""
    try:
        return parse_eviction_hard(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def percent(text: str) -> int:
    """Parse a number from 0 to 100."""
    if not text.isdecimal() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return int(text)


def log_file_count(text: str) -> int:
    """Parse a number of log files: the present one, and at least one that was rotated."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number greater than 1")
    return int(text)


def addresses(text: str) -> tuple[str, ...]:
    """Parse a list of IP addresses."""
    return tuple(str(address(one)) for one in text.split(",") if one)


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    _add_switch(parser, "--register-node", True, "create the Node object instead of waiting for it")
    parser.add_argument("--node-ip", type=address, help="IP address of the nodes (default: --address)")
    parser.add_argument("--node-labels", type=labels, default={}, metavar="K=V,…", help="labels of the nodes")
    parser.add_argument(
        "--register-with-taints", type=taints, default=(), metavar="K=V:EFFECT,…", help="taints of the nodes"
    )
    parser.add_argument(
        "--max-pods",
        type=positive_count,
        default=110,
        metavar="N",
        help="maximum number of pods per node (default: 110)",
    )
    parser.add_argument(
        "--node-status-update-frequency",
        type=duration,
        default=10.0,
        help="interval of node status updates (default: 10s)",
    )
    parser.add_argument("--pod-manifest-path", type=Path, metavar="DIR", help="folder of static pod manifests")
    parser.add_argument(
        "--node-stages", type=Path, metavar="FILE", help="YAML file with rules for the behavior of simulated containers"
    )
    parser.add_argument(
        "--node-events",
        choices=("none", "warnings", "all"),
        default="warnings",
        help="pod events to write (default: warnings)",
    )


def _add_port_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", type=address, default="0.0.0.0", help="IP address to listen on (default: 0.0.0.0)")
    about = "HTTPS port of the first node; further nodes use the following ports; 0 for any free port (default: 10250)"
    parser.add_argument("--port", type=port, default=10250, help=about)
    parser.add_argument(
        "--healthz-port", type=port, default=10248, help="HTTP port of /healthz; 0 for none (default: 10248)"
    )
    parser.add_argument(
        "--healthz-bind-address", type=address, default="127.0.0.1", help="IP address of /healthz (default: 127.0.0.1)"
    )
    folder = state_dir() / "kubelet"
    parser.add_argument("--cert-dir", type=Path, help=f"folder of keys and certificates (default: {folder}/NAME)")
    parser.add_argument("--tls-cert-file", type=Path, help="serving certificate (default: self-signed)")
    parser.add_argument("--tls-private-key-file", type=Path, help="private key of the certificate")
    _add_switch(
        parser,
        "--rotate-server-certificates",
        False,
        "request serving certificates from the API server; the requests must be approved",
    )
    _add_switch(
        parser, "--rotate-certificates", True, "request a new client certificate before the current one expires"
    )


def _add_access_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--client-ca-file", type=Path, help="CA bundle for client certificates (default: read from the API server)"
    )
    _add_switch(parser, "--anonymous-auth", False, "accept requests without credentials as system:anonymous")
    _add_switch(parser, "--authentication-token-webhook", True, "authenticate bearer tokens with TokenReview requests")
    parser.add_argument(
        "--authentication-token-webhook-cache-ttl",
        type=duration,
        default=120.0,
        help="time to cache authentication results (default: 2m)",
    )
    parser.add_argument(
        "--authorization-mode",
        choices=("AlwaysAllow", "Webhook"),
        default="Webhook",
        help="authorization mode (default: Webhook)",
    )
    parser.add_argument(
        "--authorization-webhook-cache-authorized-ttl",
        type=duration,
        default=300.0,
        help="time to cache allowed requests (default: 5m)",
    )
    parser.add_argument(
        "--authorization-webhook-cache-unauthorized-ttl",
        type=duration,
        default=30.0,
        help="time to cache denied requests (default: 30s)",
    )


def _add_switch(parser: argparse.ArgumentParser, name: str, default: bool, about: str) -> None:
    shown = f"{about} (default: {str(default).lower()})"
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=shown)


def labels(text: str) -> dict[str, str]:
    """Parse `key=value,key=value`."""
    found: dict[str, str] = {}
    for one in filter(None, text.split(",")):
        key, sign, value = one.partition("=")
        if not key or not sign:
            raise argparse.ArgumentTypeError(f"{one!r} is not of the form key=value")
        found[key] = value
    return found


def taints(text: str) -> tuple[dict[str, Any], ...]:
    """Parse `key=value:effect,key:effect`."""
    found = []
    for one in filter(None, text.split(",")):
        what, _, effect = one.rpartition(":")
        key, _, value = what.partition("=")
        if not key or effect not in _EFFECTS:
            raise argparse.ArgumentTypeError(f"{one!r} is not of the form key=value:effect with one of {_EFFECTS}")
        found.append({"key": key, "value": value, "effect": effect})
    return tuple(found)
