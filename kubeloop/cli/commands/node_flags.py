# SPDX-License-Identifier: Apache-2.0
"""Actions and flags of `kubeloop node`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kubeloop.cli.program.output import NAME, add_output_flag

_ABOUT = """Manage the nodes of a running cluster. Simulated nodes can also be stopped and started, partitioned from
the control plane and healed, and put under resource pressure."""
_EXAMPLES = """Examples:
  # Nodes with their simulated state
  kubeloop node list

  # Two more nodes
  kubeloop node add n2 n3

  # A node that fails, and comes back
  kubeloop node stop n2
  kubeloop node start n2
"""
_ACTIONS = (
    ("list", "List nodes with their state", " -o json"),
    ("stop", "Stop simulated nodes: their containers are lost and they send no heartbeats", " n1"),
    ("shutdown", "Shut simulated nodes down gracefully: pods end within 30 seconds, critical ones last", " n1"),
    ("start", "Start stopped nodes", " n1"),
    (
        "partition",
        "Partition simulated nodes: their containers keep running, but they cannot reach the API server",
        " n1 n2",
    ),
    ("heal", "Heal partitioned nodes", " n1 n2"),
    ("cordon", "Mark nodes as unschedulable", " n1"),
    ("uncordon", "Mark nodes as schedulable", " n1"),
    ("drain", "Cordon nodes and evict their pods", " n1 --timeout 120"),
    ("pressure", "Set the resource pressure of simulated nodes", " n1 --of memory,disk"),
    ("add", "Add simulated nodes", " n2 n3"),
    ("delete", "Delete nodes", " n3"),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, about, example in _ACTIONS:
        epilog = f"Examples:\n  kubeloop node {name}{example}\n"
        action = actions.add_parser(name, help=about, description=f"{about}.", epilog=epilog)
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
