# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop kubelet` that are not in its configuration: identity, files, simulated nodes."""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.flags.types import address, non_negative_count
from kubeloop.cli.kubelet.config_flags import add_config_flags
from kubeloop.cli.kubelet.unsupported_flags import NO_EFFECT, ONLY_VALUE, REFUSED
from kubeloop.cli.local_clusters.registry import state_dir

_ABOUT = """Run one node, or many simulated nodes, against an API server. Without --nodes it only needs the permissions
of that node (user system:node:NAME of group system:nodes)."""
_EXAMPLES = """Examples:
  # One node
  kubeloop kubelet --kubeconfig kubelet.conf --hostname-override n1

  # A real node, with a KubeletConfiguration and drop-ins
  kubeloop kubelet --kubeconfig kubelet.conf --config kubelet.yaml --config-dir kubelet.d

  # A hundred simulated nodes
  kubeloop kubelet --kubeconfig admin.conf --nodes 100
"""
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
    _add_file_flags(parser)
    add_config_flags(parser)
    for name in (*ONLY_VALUE, *NO_EFFECT, *REFUSED):
        parser.add_argument(
            f"--{name}", nargs="?", dest="without_effect", action=_UnsupportedFlag, help=argparse.SUPPRESS
        )
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


class _UnsupportedFlag(argparse.Action):
    """Accepts the values that match our behavior, notes flags without effect, and rejects the rest."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        name, value = (option_string or "").removeprefix("--"), "true" if values is None else values
        if name in REFUSED:
            parser.error(f"{option_string} is a flag of the kubelet that is not supported: {REFUSED[name]}")
        if name in NO_EFFECT:
            namespace.without_effect = [*(namespace.without_effect or ()), option_string]
            return
        ours, reason = ONLY_VALUE[name]
        if value not in ours:
            only = " or ".join(one or "empty" for one in ours)
            parser.error(f"{option_string} can only be {only} in kubeloop, not {value}: {reason}")


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


def _add_file_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="file with a KubeletConfiguration")
    parser.add_argument(
        "--config-dir",
        type=Path,
        metavar="DIR",
        help="folder of drop-ins (*.conf) that are merged into the configuration in lexical order",
    )
    parser.add_argument(
        "--root-dir",
        type=Path,
        default=Path("/var/lib/kubelet"),
        help="folder of the volumes and files of real pods (default: /var/lib/kubelet)",
    )
    parser.add_argument(
        "--image-credential-provider-config",
        default="",
        metavar="PATH",
        help="file with a CredentialProviderConfig, or folder of such files (*.json, *.yaml, *.yml)",
    )
    parser.add_argument(
        "--image-credential-provider-bin-dir",
        default="",
        metavar="DIR",
        help="folder of the programs of credential provider plugins",
    )
    folder = state_dir() / "kubelet"
    parser.add_argument("--cert-dir", type=Path, help=f"folder of keys and certificates (default: {folder}/NAME)")


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node-ip", type=address, help="IP address of the nodes (default: --address)")
    parser.add_argument("--node-labels", type=labels, default={}, metavar="K=V,…", help="labels of the nodes")
    parser.add_argument(
        "--cloud-provider",
        choices=("", "external"),
        default="",
        metavar="NAME",
        help="external: a cloud controller manager initializes the node (default: none)",
    )
    parser.add_argument(
        "--node-stages", type=Path, metavar="FILE", help="YAML file with rules for the behavior of simulated containers"
    )
    parser.add_argument(
        "--node-events",
        choices=("none", "warnings", "all"),
        default="warnings",
        help="pod events to write (default: warnings)",
    )


def labels(text: str) -> dict[str, str]:
    """Parse `key=value,key=value`."""
    found: dict[str, str] = {}
    for one in filter(None, text.split(",")):
        key, sign, value = one.partition("=")
        if not key or not sign:
            raise argparse.ArgumentTypeError(f"{one!r} is not of the form key=value")
        found[key] = value
    return found
