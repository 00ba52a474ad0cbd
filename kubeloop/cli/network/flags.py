# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop network`."""

from __future__ import annotations

import argparse
import os
import socket
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.flags.types import address, boolean, non_negative_count, port

_ABOUT = """Run the pod network and the network policies of one node: routes, VXLAN tunnels or BGP to other nodes, the
CNI configuration, masquerading, and NetworkPolicy by nftables. Needs root, and the packages of the extra `node`."""
_EXAMPLES = """Examples:
  # VXLAN tunnels between nodes
  kubeloop network --kubeconfig network.conf --node-name n1

  # Plain routes, for nodes on one link
  kubeloop network --kubeconfig network.conf --node-name n1 --backend host-gw

  # Routes by BGP, with peers of a file
  kubeloop network --kubeconfig network.conf --node-name n1 --backend bgp --bgp-config peers.yaml
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    _add_identity_flags(parser)
    _add_backend_flags(parser)
    _add_cni_flags(parser)
    _add_traffic_flags(parser)
    _add_status_flags(parser)
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def _add_identity_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="kubeconfig with the API server and the credentials (default: of the cluster this runs in)",
    )
    parser.add_argument(
        "--node-name",
        default=os.environ.get("NODE_NAME") or socket.gethostname().lower(),
        metavar="NAME",
        help="name of the node (default: the variable NODE_NAME, else the host's name)",
    )
    parser.add_argument(
        "--node-ip",
        type=_addresses,
        default=(),
        metavar="IP[,IP]",
        help="addresses of the node for traffic between nodes, one of each family (default: its InternalIP addresses)",
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("/run/kubeloop-network"),
        metavar="DIR",
        help="folder for the socket of the CNI plugin and the files of BIRD (default: /run/kubeloop-network)",
    )


def _add_backend_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=("vxlan", "host-gw", "bgp"),
        default="vxlan",
        help="how packets reach pods of other nodes; equal on all nodes (default: vxlan)",
    )
    parser.add_argument(
        "--mtu",
        type=non_negative_count,
        default=0,
        metavar="BYTES",
        help="MTU of pods (default: of the node's link, minus the headers of a tunnel)",
    )
    parser.add_argument("--vxlan-vni", type=_vni, default=1, metavar="ID", help="VXLAN network identifier (default: 1)")
    parser.add_argument("--vxlan-port", type=port, default=8472, help="UDP port of VXLAN (default: 8472)")
    parser.add_argument(
        "--bgp-as", type=_as_number, default=64512, metavar="NUMBER", help="AS number of the nodes (default: 64512)"
    )
    parser.add_argument("--bgp-config", type=Path, metavar="FILE", help="file with BGP peers outside the cluster")
    parser.add_argument(
        "--bgp-advertise",
        type=_networks,
        default=(),
        metavar="CIDR[,CIDR…]",
        help="networks of Service addresses that every node advertises to peers outside the cluster",
    )
    parser.add_argument("--bird", default="bird", metavar="PROGRAM", help="program of BIRD 2 (default: bird)")
    parser.add_argument("--birdc", default="birdc", metavar="PROGRAM", help="client of BIRD 2 (default: birdc)")


def _add_cni_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cni-conf-dir",
        default="/etc/cni/net.d",
        metavar="DIR",
        help="folder to write the CNI configuration to; empty to write none (default: /etc/cni/net.d)",
    )
    parser.add_argument(
        "--cni-bin-dir",
        default="/opt/cni/bin",
        metavar="DIR",
        help="folder of CNI plugins, where the plugin kubeloop-policy is installed; empty to install none "
        "(default: /opt/cni/bin)",
    )
    parser.add_argument(
        "--cni-data-dir",
        default="/var/lib/cni/networks",
        metavar="DIR",
        help="folder of the addresses in use (default: /var/lib/cni/networks)",
    )
    parser.add_argument(
        "--cni-plugin",
        choices=("ptp", "bridge"),
        default="ptp",
        help="plugin that connects pods; with bridge, policies between pods of one node need the module br_netfilter "
        "(default: ptp)",
    )
    parser.add_argument(
        "--cni-chain",
        type=_chain,
        default=("portmap", "bandwidth"),
        metavar="NAME[,NAME…]",
        help="further plugins: portmap, bandwidth, tuning, firewall; empty for none (default: portmap,bandwidth)",
    )
    parser.add_argument(
        "--container-runtime-endpoint",
        default="",
        metavar="ENDPOINT",
        help="socket of the CRI runtime, to free addresses of sandboxes that no longer exist (default: none are freed)",
    )


def _add_traffic_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--masquerade",
        type=boolean,
        default=True,
        metavar="BOOL",
        help="give packets that leave the cluster the node's address (default: true)",
    )
    parser.add_argument(
        "--cluster-cidr",
        type=_networks,
        default=(),
        metavar="CIDR[,CIDR…]",
        help="networks that pods reach with their own addresses, besides the pod CIDRs of nodes",
    )
    parser.add_argument(
        "--network-policy",
        type=boolean,
        default=True,
        metavar="BOOL",
        help="enforce NetworkPolicy objects (default: true)",
    )


def _add_status_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--healthz-bind-address",
        type=address,
        default="127.0.0.1",
        metavar="IP",
        help="address of /healthz, /readyz and /metrics (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--healthz-port", type=port, default=10261, help="port of these pages; 0 for none (default: 10261)"
    )
    parser.add_argument("-v", "--v", type=non_negative_count, default=0, metavar="LEVEL", help="verbosity of the log")
    parser.add_argument(
        "--logging-format", choices=("text", "json"), default="text", help="format of the log (default: text)"
    )


def _addresses(text: str) -> tuple[str, ...]:
    try:
        found = [ip_address(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len({one.version for one in found}) != len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has more than one address of an IP family")
    return tuple(map(str, found))


def _networks(text: str) -> tuple[Any, ...]:
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _chain(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if unknown := [name for name in names if name not in ("portmap", "bandwidth", "tuning", "firewall")]:
        raise argparse.ArgumentTypeError(f"unknown plugin {unknown[0]!r}")
    return names


def _vni(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 24:
        raise argparse.ArgumentTypeError(f"{text!r} is not a network identifier between 1 and {(1 << 24) - 1}")
    return int(text)


def _as_number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an AS number")
    return int(text)
