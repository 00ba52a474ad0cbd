# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop up`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kubeloop.cli.flags.chaos import add_chaos_flag
from kubeloop.cli.flags.runtime_config import add_runtime_config_flags
from kubeloop.cli.flags.types import address, networks, non_negative_count, port
from kubeloop.cli.local_clusters.registry import ClusterError, ClusterRegistry, valid_name
from kubeloop.cli.program.logs import add_log_flags
from kubeloop.cli.program.output import NAME, add_output_flag

_ABOUT = """Run a cluster: API server, controllers, scheduler and simulated nodes in one process.
It runs until Ctrl-C, or in the background with --detach. All state is in the data folder and survives a restart."""
_EXAMPLES = """Examples:
  # A cluster that leaves nothing behind
  kubeloop up --ephemeral

  # A second cluster with ten nodes in the background
  kubeloop up --detach --name large --nodes 10

  # Run pods as containers on this host
  kubeloop up --runtime containerd

  # Add the cluster to your kubeconfig and make it the current context
  kubeloop up --detach --kubeconfig ~/.kube/config --switch-context
"""
DEFAULT_CLOUD = "local"
NO_CLOUD = "none"
PORT = 6443
FULL_NETWORK = "full"
NO_NETWORK = "none"
CLUSTER_CIDR = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/12"  # of kubeadm; DNS is at its tenth address

LOCAL_ADDRESSES = "forward requests to nodes at loopback and link-local addresses too: for kubelets on this host"


@dataclass(frozen=True, slots=True)
class NodeFlags:
    """Flags for simulated nodes."""

    count: int
    events: Literal["none", "warnings", "all"]
    stages: Path | None
    static_pods: Path | None
    kubelet_port: int = 0  # of the first node; none if zero
    kubelet_metrics: bool = False  # of other programs' nodes, even if there are none here
    kubelet_allow_local_addresses: bool = False


@dataclass(frozen=True, slots=True)
class CloudProviderFlags:
    """Flags for a cloud; an empty provider means none."""

    provider: str
    config_file: str


def _cluster_name(text: str) -> str:
    try:
        return valid_name(text)
    except ClusterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _store(text: str) -> str:
    if text in ("sqlite", "memory") or text.startswith("etcd://"):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not one of sqlite, memory and etcd://HOST:PORT")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `kubeloop up`."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    parser.add_argument("--name", type=_cluster_name, help="name of the cluster (default: kubeloop, kubeloop-2, ...)")
    parser.add_argument(
        "--detach", action="store_true", help="run in the background; returns when the cluster is ready"
    )
    add_output_flag(parser, NAME)
    where = parser.add_mutually_exclusive_group()
    folder = ClusterRegistry().data_dir("NAME")
    where.add_argument(
        "--data-dir", type=Path, metavar="DIR", help=f"folder of state, keys and kubeconfig (default: {folder})"
    )
    where.add_argument(
        "--ephemeral", action="store_true", help="keep all state in memory; it is lost when the program exits"
    )
    _add_listener_flags(parser)
    _add_node_flags(parser)
    _add_network_flags(parser)
    _add_cloud_flags(parser)
    _add_server_flags(parser)
    add_runtime_config_flags(parser)
    add_chaos_flag(parser)
    add_log_flags(parser)
    parser.add_argument(
        "--store",
        type=_store,
        metavar="STORE",
        help="store: sqlite, memory or etcd://HOST:PORT,... (default: sqlite, or memory with --ephemeral)",
    )


def _add_listener_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about addresses and ports, and the kubeconfig that names them."""
    parser.add_argument(
        "--port", type=port, help=f"port to listen on; 0 for any free port (default: {PORT}, or another if it is taken)"
    )
    parser.add_argument(
        "--bind-address",
        type=address,
        help="IP address to listen on (default: 127.0.0.1, or 0.0.0.0 if --runtime has pods with a network: they "
        "reach the API server at the node's address)",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig to add the cluster to, with a context named after it (default: DIR/admin.conf)",
    )
    parser.add_argument(
        "--switch-context",
        action="store_true",
        help="make the cluster the current context of a kubeconfig that has another",
    )
    for component, usual in (("controller-manager", 10257), ("scheduler", 10259)):
        parser.add_argument(
            f"--{component}-port",
            type=port,
            default=usual,
            help=f"port of its health, metrics and configuration; another if it is taken; 0: none (default: {usual})",
        )


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `kubeloop apiserver` has, too."""
    from kubeloop.cli.apiserver.flags import add_shared_flags  # it imports this module

    add_shared_flags(parser)
    parser.set_defaults(enable_bootstrap_token_auth=True)


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes",
        type=non_negative_count,
        metavar="N",
        help="number of simulated nodes: n1, n2, … (default: 1; 0 with --runtime, and with etcd, which may be shared)",
    )
    parser.add_argument(
        "--runtime",
        metavar="RUNTIME",
        help="container runtime that makes this host a real node: containerd, cri-o or unix://PATH (default: none)",
    )
    parser.add_argument(
        "--kubelet-arg",
        action="append",
        default=[],
        metavar="FLAG=VALUE",
        help="flag of 'kubeloop kubelet' for the real node, such as hostname-override=worker; may be repeated",
    )
    parser.add_argument(
        "--node-stages",
        type=Path,
        metavar="FILE",
        help="YAML file with rules for the behavior of containers on simulated nodes",
    )
    parser.add_argument(
        "--node-static-pods",
        type=Path,
        metavar="DIR",
        help="folder of static pod manifests for every simulated node",
    )
    parser.add_argument(
        "--kubelet-port",
        type=port,
        default=0,
        help="HTTPS port of the first simulated node; further nodes use the following ports; 0 for none (default: 0)",
    )
    parser.add_argument("--kubelet-allow-local-addresses", action="store_true", help=LOCAL_ADDRESSES)
    parser.add_argument(
        "--kubelet-metrics",
        action="store_true",
        help="serve metrics.k8s.io from kubelets in other processes; implied by --nodes",
    )
    parser.add_argument(
        "--node-events",
        choices=("none", "warnings", "all"),
        default="warnings",
        help="pod events that simulated nodes write (default: warnings)",
    )


def _add_network_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of pod network, service proxy and DNS."""
    parser.add_argument(
        "--node-network",
        choices=(FULL_NETWORK, NO_NETWORK),
        default=FULL_NETWORK,
        help="network of the real node: full, for pod network, network policies, service proxy and DNS, or none, to "
        "leave the network of this host as it is (default: full)",
    )
    parser.add_argument(
        "--cluster-cidr",
        metavar="CIDR[,CIDR]",
        type=networks,
        help="networks from which nodes get their pod CIDRs, one of each IP family (default: 10.244.0.0/16 for a real "
        "node with a network, otherwise nodes get none)",
    )
    parser.add_argument(
        "--service-cluster-ip-range",
        metavar="CIDR[,CIDR]",
        type=networks,
        help="networks of cluster IPs, one of each IP family (default: 10.96.0.0/12 for a real node with a network, "
        "otherwise 10.0.0.0/24)",
    )
    for program, example in (("network", "backend=host-gw"), ("proxy", "masquerade-all"), ("dns", "log-queries")):
        parser.add_argument(
            f"--{program}-arg",
            action="append",
            default=[],
            metavar="FLAG=VALUE",
            help=f"flag of 'kubeloop {program}' for the real node, such as {example}; may be repeated",
        )


def _add_cloud_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags for load balancers and volumes."""
    parser.add_argument(
        "--cloud-provider",
        default=DEFAULT_CLOUD,
        metavar="NAME",
        help=f"cloud provider that implements services of type LoadBalancer, or none (default: {DEFAULT_CLOUD})",
    )
    parser.add_argument("--cloud-config", default="", metavar="FILE", help="configuration file of the cloud provider")
    parser.add_argument(
        "--default-storage-class",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="create a default storage class named standard, with directories on the nodes as volumes (default: true)",
    )
