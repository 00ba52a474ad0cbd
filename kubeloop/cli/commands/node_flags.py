# SPDX-License-Identifier: Apache-2.0
"""Actions and flags of `kubeloop node`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kubeloop.cli.program.output import NAME, add_output_flag

_ABOUT = """Manage the nodes of a running cluster. Simulated nodes can also be stopped and started, partitioned from
the control plane and healed, and put under resource pressure."""
_ACTIONS = (
    ("list", "list nodes with their state"),
    ("stop", "stop simulated nodes: their containers are lost and they send no heartbeats"),
    ("shutdown", "shut simulated nodes down gracefully: pods end within 30 seconds, critical ones last"),
    ("start", "start stopped nodes"),
    ("partition", "partition simulated nodes: their containers keep running, but they cannot reach the API server"),
    ("heal", "heal partitioned nodes"),
    ("cordon", "mark nodes as unschedulable"),
    ("uncordon", "mark nodes as schedulable"),
    ("drain", "cordon nodes and evict their pods"),
    ("pressure", "set the resource pressure of simulated nodes"),
    ("add", "add simulated nodes"),
    ("delete", "delete nodes"),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their flags."""
    parser.description = _ABOUT
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, about in _ACTIONS:
        action = actions.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False)
        action.add_argument(
            "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster (default: as kubectl)"
        )
        add_output_flag(action, NAME)
        if name == "list":
            continue
        action.add_argument("names", nargs="+", metavar="NODE", help="name of a node")
        if name == "pressure":
            what = "comma-separated list of memory, disk and pid, or none"
            action.add_argument("--of", required=True, metavar="WHAT", help=what)
        if name == "drain":
            action.add_argument(
                "--timeout", type=float, default=60.0, metavar="S", help="timeout in seconds (default: 60)"
            )
