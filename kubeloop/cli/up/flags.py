"""Flags of `kubeloop up`."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kubeloop.cli.flags.chaos import add_chaos_flag
from kubeloop.cli.flags.runtime_config import add_runtime_config_flags
from kubeloop.cli.flags.types import address, non_negative_count, port

_ABOUT = """Run the control plane in the foreground, and stop it cleanly on Ctrl-C.
All its state is in the data folder: started again, it is all there."""


@dataclass(frozen=True, slots=True)
class NodeFlags:
    """Flags for simulated nodes."""

    count: int
    events: Literal["none", "warnings", "all"]
    stages: Path | None
    static_pods: Path | None
    kubelet_port: int = 0  # of the first node; none if zero
    kubelet_metrics: bool = False  # of other programs' nodes, even if there are none here


@dataclass(frozen=True, slots=True)
class CloudProviderFlags:
    """Flags for a cloud; an empty provider means none."""

    provider: str
    config_file: str


def default_data_dir() -> Path:
    """Return the state folder by the XDG convention."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "kubeloop"


def _store(text: str) -> str:
    if text in ("sqlite", "memory") or text.startswith("etcd://"):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of sqlite, memory and etcd://HOST:PORT")


def add_command(commands: Any) -> None:
    """Add the `up` command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "up", help="run the whole control plane", description=_ABOUT, allow_abbrev=False
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data-dir", type=Path, metavar="DIR", help=f"state, keys and kubeconfig (default: {default_data_dir()})"
    )
    where.add_argument("--ephemeral", action="store_true", help="keep everything in memory, and nothing after the end")
    parser.add_argument("--port", type=port, default=6443, help="port to listen on; 0 for a free one (default: 6443)")
    parser.add_argument("--bind-address", type=address, default="127.0.0.1", help="address (default: 127.0.0.1)")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="where to write access data (default: DIR/admin.conf)"
    )
    parser.add_argument(
        "--controller-manager-port",
        type=port,
        default=10257,
        help="port of the loops' health, metrics and status, if it is free; 0 for none (default: 10257)",
    )
    _add_node_flags(parser)
    _add_cloud_flags(parser)
    add_runtime_config_flags(parser)
    add_chaos_flag(parser)
    parser.add_argument(
        "--store",
        type=_store,
        metavar="STORE",
        help="where state lives: sqlite, memory or etcd://HOST:PORT,... (default: sqlite, or memory if ephemeral)",
    )


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes", type=non_negative_count, default=0, metavar="N", help="simulated nodes: n1, n2, … (default: 0)"
    )
    parser.add_argument(
        "--node-stages", type=Path, metavar="FILE", help="what containers on simulated nodes do, as rules in YAML"
    )
    parser.add_argument(
        "--node-static-pods",
        type=Path,
        metavar="DIR",
        help="pods that every simulated node runs by itself, as manifests",
    )
    parser.add_argument(
        "--kubelet-port",
        type=port,
        default=0,
        help="HTTPS port of the first simulated node, the next one for each further node; 0 for none (default: 0)",
    )
    parser.add_argument(
        "--kubelet-metrics",
        action="store_true",
        help="serve metrics.k8s.io from what kubelets of other programs tell; always with --nodes",
    )
    parser.add_argument(
        "--node-events",
        choices=("none", "warnings", "all"),
        default="warnings",
        help="which events simulated nodes write about pods (default: warnings)",
    )


def _add_cloud_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags for load balancers and volumes."""
    parser.add_argument(
        "--cloud-provider",
        default="",
        metavar="NAME",
        help="who gives services of type LoadBalancer their addresses, such as local (default: nobody)",
    )
    parser.add_argument("--cloud-config", default="", metavar="FILE", help="what the cloud provider is told")
    parser.add_argument(
        "--default-storage-class",
        action="store_true",
        help="make a default class of volumes named standard: directories on the nodes",
    )
