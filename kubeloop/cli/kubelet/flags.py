"""Flags of `kubeloop kubelet`: kubelet's names where it has the flag, and its configuration file's defaults."""

from __future__ import annotations

import argparse
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.flags.types import address, boolean, duration, non_negative_count, port, positive_count
from kubeloop.cli.up.flags import default_data_dir

_ABOUT = """Run one node, or many that are simulated, against an API server. Without --nodes it needs no more than the
rights of that node (user system:node:NAME of group system:nodes)."""
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
        raise ValueError("--hostname-override is for one node, --nodes for many")
    names = NodeNames(
        options.hostname_override or socket.gethostname().lower(), options.nodes, options.node_name_prefix
    )
    if not _NAME.fullmatch(names.all[0]):
        raise ValueError(f"{names.all[0]!r} can't be the name of a node")
    return names


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description = _ABOUT
    _add_identity_flags(parser)
    _add_node_flags(parser)
    _add_port_flags(parser)
    _add_access_flags(parser)
    parser.add_argument(
        "-v", "--v", type=non_negative_count, default=0, metavar="LEVEL", help="how much to log: 0, 2 or 4"
    )
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def _add_identity_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the API server, and as whom to speak to it")
    parser.add_argument(
        "--bootstrap-kubeconfig", type=Path, help="by which to ask for a certificate if --kubeconfig isn't there yet"
    )
    parser.add_argument("--hostname-override", default="", metavar="NAME", help="the node (default: this host's name)")
    parser.add_argument(
        "--nodes", type=non_negative_count, default=0, metavar="N", help="so many nodes instead: n1, n2, …"
    )
    parser.add_argument("--node-name-prefix", default="n", metavar="TEXT", help="what their names begin with")
    parser.add_argument(
        "--kube-api-qps", type=non_negative_count, default=None, metavar="N", help="(default: 50; any for --nodes)"
    )
    parser.add_argument("--kube-api-burst", type=positive_count, default=100, metavar="N", help="(default: 100)")


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    _add_switch(parser, "--register-node", True, "make the Node, rather than wait for it")
    parser.add_argument("--node-ip", type=address, help="where nodes say that they are (default: --address)")
    parser.add_argument("--node-labels", type=labels, default={}, metavar="K=V,…", help="that nodes register with")
    parser.add_argument(
        "--register-with-taints", type=taints, default=(), metavar="K=V:EFFECT,…", help="that nodes register with"
    )
    parser.add_argument("--max-pods", type=positive_count, default=110, metavar="N", help="of each node (default: 110)")
    parser.add_argument("--node-status-update-frequency", type=duration, default=10.0, help="(default: 10s)")
    parser.add_argument("--pod-manifest-path", type=Path, metavar="DIR", help="static pods")
    parser.add_argument(
        "--node-stages", type=Path, metavar="FILE", help="what simulated containers do, as rules in YAML"
    )
    parser.add_argument(
        "--node-events",
        choices=("none", "warnings", "all"),
        default="warnings",
        help="which events are written about pods (default: warnings)",
    )


def _add_port_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", type=address, default="0.0.0.0", help="to listen at (default: 0.0.0.0)")
    about = "of the first node, the next one for each further node; 0 for any (default: 10250)"
    parser.add_argument("--port", type=port, default=10250, help=about)
    parser.add_argument(
        "--healthz-port", type=port, default=10248, help="/healthz, without TLS; 0: none (default: 10248)"
    )
    parser.add_argument("--healthz-bind-address", type=address, default="127.0.0.1", help="(default: 127.0.0.1)")
    folder = default_data_dir() / "kubelet"
    parser.add_argument("--cert-dir", type=Path, help=f"keys and certificates (default: {folder}/NAME)")
    parser.add_argument("--tls-cert-file", type=Path, help="serving certificate (default: one that it signs itself)")
    parser.add_argument("--tls-private-key-file", type=Path, help="its key")
    _add_switch(
        parser, "--rotate-server-certificates", False, "ask for a serving certificate, which somebody has to approve"
    )
    _add_switch(parser, "--rotate-certificates", True, "ask for another client certificate before it ends")


def _add_access_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--client-ca-file", type=Path, help="who signs clients (default: asks the API server)")
    _add_switch(parser, "--anonymous-auth", False, "let requests without credentials in as system:anonymous")
    _add_switch(parser, "--authentication-token-webhook", True, "have the API server look at tokens")
    parser.add_argument("--authentication-token-webhook-cache-ttl", type=duration, default=120.0, help="(default: 2m)")
    parser.add_argument(
        "--authorization-mode", choices=("AlwaysAllow", "Webhook"), default="Webhook", help="(default: Webhook)"
    )
    parser.add_argument(
        "--authorization-webhook-cache-authorized-ttl", type=duration, default=300.0, help="(default: 5m)"
    )
    parser.add_argument(
        "--authorization-webhook-cache-unauthorized-ttl", type=duration, default=30.0, help="(default: 30s)"
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
