# SPDX-License-Identifier: Apache-2.0
"""`kubeloop status`: shows the clusters on this machine."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kubeloop.api.scalars.times import human_age
from kubeloop.cli.local_clusters.inspect import ClusterStatus, ComponentStatus, inspect_clusters
from kubeloop.cli.local_clusters.registry import ClusterRegistry
from kubeloop.cli.program.output import NAME, add_output_flag, format_document, format_table
from kubeloop.clock import SystemClock

_EXAMPLES: Final = """Examples:
  # All clusters
  kubeloop status

  # One cluster with its components, every two seconds
  kubeloop status kubeloop --watch

  # For a program
  kubeloop status -o json
"""
_HEAD: Final = ("NAME", "STATUS", "AGE", "SERVER", "NODES", "PODS", "CONTROLLERS")
_CLEAR: Final = "\x1b[H\x1b[2J"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `status`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a cluster, to show its components too")
    parser.add_argument("-w", "--watch", action="store_true", help="show the status repeatedly, until Ctrl-C")
    parser.add_argument(
        "--interval", type=float, default=2.0, metavar="S", help="seconds between two updates with --watch (default: 2)"
    )
    add_output_flag(parser, NAME)


def run_status(options: argparse.Namespace) -> int:
    """Print the clusters; returns 0 if each asked for is ready, otherwise 1."""
    try:
        return asyncio.run(_show(options))
    except KeyboardInterrupt:
        return 0


async def _show(options: argparse.Namespace) -> int:
    registry = ClusterRegistry()
    while True:
        found = await inspect_clusters(registry, options.names, SystemClock())
        _print(found, options)
        if not options.watch:
            return 0 if all(one.status == "Ready" for one in found) or not options.names else 1
        await asyncio.sleep(options.interval)


def _print(found: Sequence[ClusterStatus], options: argparse.Namespace) -> None:
    if options.output:
        names = "\n".join(one.name for one in found)
        shown = names if options.output == NAME else format_document({"clusters": found}, options.output)
        print(shown, end="\n" if shown else "", flush=True)
        return
    if options.watch and sys.stdout.isatty():
        print(_CLEAR, end="")
    now = SystemClock().now()
    if not found:
        print("No clusters on this machine. Start one with 'kubeloop up --detach'.")
        return
    print(format_table([_HEAD, *(_row(one, now) for one in found)]))
    if options.names:
        print("".join(f"\n{details(one)}" for one in found))
    sys.stdout.flush()


def _row(one: ClusterStatus, now: datetime) -> tuple[str, ...]:
    if one.status != "Ready":
        return (one.name, one.status, "", one.server, "", "", "")
    return (
        one.name,
        one.status,
        human_age(one.started, now),
        one.server,
        f"{one.ready_nodes}/{one.nodes}",
        f"{one.ready_pods}/{one.pods}",
        f"{one.healthy_controllers}/{one.controllers}",
    )


def _real_node(one: ClusterStatus) -> str:
    node = one.real_node
    return f"{node.name} ({node.runtime}), {'Ready' if node.ready else 'NotReady'}" if node is not None else ""


def _health(part: ComponentStatus) -> str:
    if part.healthy:
        return "Healthy"
    return f"Unhealthy: {part.problem}" if part.problem else "Unhealthy"


def details(one: ClusterStatus) -> str:
    """Format what the table of clusters leaves out."""
    facts = [
        ("Kubeconfig", one.kubeconfig),
        ("Data", one.data_dir or "in memory"),
        ("Log", one.log),
        ("Process", str(one.pid) if one.pid else ""),
        ("Real node", _real_node(one)),
    ]
    lines = [f"{one.name}:", *(f"  {name + ':':<12}{value}" for name, value in facts if value)]
    rows = [(part.name, str(part.port or "-"), _health(part)) for part in one.components]
    if rows:
        table = format_table([("COMPONENT", "PORT", "STATUS"), *rows])
        lines += [f"  {line}" for line in table.splitlines()]
    return "\n".join(lines) + "\n"
