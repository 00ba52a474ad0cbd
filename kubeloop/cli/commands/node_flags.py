"""Flags of `kubeloop node`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

_ABOUT = """Look after the nodes of a running plane. Simulated nodes can also be switched off and on, cut off from the
plane and brought back, and put under pressure."""
# Command, whether it is about nodes by name, what it does.
ACTIONS = (
    ("list", "list nodes with their state"),
    ("stop", "switch simulated nodes off: what runs on them is gone, nothing is heard from them"),
    ("shutdown", "shut simulated nodes down: their pods end within half a minute, the critical ones last"),
    ("start", "switch them on again"),
    ("partition", "cut simulated nodes off: what runs on them runs on, but nothing is heard"),
    ("heal", "bring them back"),
    ("cordon", "let no more pods be scheduled to nodes"),
    ("uncordon", "let pods be scheduled to them again"),
    ("drain", "cordon nodes and evict their pods"),
    ("pressure", "say what simulated nodes are short of"),
    ("add", "add simulated nodes"),
    ("delete", "delete nodes"),
)


def add_command(commands: Any) -> None:
    """Add the `node` command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "node", help="look after nodes", description=_ABOUT, allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, about in ACTIONS:
        action = actions.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False)
        action.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the plane (default: as kubectl does)")
        if name == "list":
            continue
        action.add_argument("names", nargs="+", metavar="NODE", help="a node's name")
        if name == "pressure":
            what = "memory, disk, pid, several with commas, or none"
            action.add_argument("--of", required=True, metavar="WHAT", help=what)
        if name == "drain":
            action.add_argument("--timeout", type=float, default=60.0, metavar="S", help="patience (default: 60)")
