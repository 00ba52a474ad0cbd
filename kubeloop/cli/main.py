"""Command line entry point: passes the options of a command to the module that runs it.

These modules are imported when a command runs, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.apiserver import flags as apiserver_flags
from kubeloop.cli.up import flags as up_flags

_ABOUT = (
    f"Kubernetes' control plane in Python: kubeloop {__version__}, with the API of Kubernetes {KUBERNETES_VERSION}."
)
_MANAGER = "controller-manager"
_SCHEDULER = "scheduler"
_CLOUD = "cloud-controller-manager"
_KUBELET = "kubelet"
_BALANCER = "balancer"
_SNAPSHOT = "snapshot"
_MIGRATE = "migrate"
_CHAOS = "chaos"
_ABOUT_NODE = """Manage the nodes of a running plane. Simulated nodes can also be stopped and started, partitioned from
the plane and healed, and put under resource pressure."""
_NODE_ACTIONS = (
    ("list", "list nodes with their state"),
    ("stop", "stop simulated nodes: their containers are lost and they send no heartbeats"),
    ("shutdown", "shut simulated nodes down gracefully: pods end within 30 seconds, critical ones last"),
    ("start", "start stopped nodes"),
    ("partition", "partition simulated nodes: their containers keep running, but they cannot reach the plane"),
    ("heal", "heal partitioned nodes"),
    ("cordon", "mark nodes as unschedulable"),
    ("uncordon", "mark nodes as schedulable"),
    ("drain", "cordon nodes and evict their pods"),
    ("pressure", "set the resource pressure of simulated nodes"),
    ("add", "add simulated nodes"),
    ("delete", "delete nodes"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser(given[0] if given else "").parse_args(given)
    if options.command == "up":
        from kubeloop.cli.up.run import run_up

        return run_up(options)
    if options.command == "apiserver":
        from kubeloop.cli.apiserver.run import run_apiserver

        return run_apiserver(options)
    if options.command == _MANAGER:
        from kubeloop.cli.controller_manager.run import run_controller_manager

        return run_controller_manager(options)
    if options.command == _SCHEDULER:
        from kubeloop.cli.scheduler.run import run_scheduler

        return run_scheduler(options)
    if options.command == _CLOUD:
        from kubeloop.cli.cloud_controller_manager.run import run_cloud_controller_manager

        return run_cloud_controller_manager(options)
    if options.command == _KUBELET:
        from kubeloop.cli.kubelet.run import run_kubelet

        return run_kubelet(options)
    if options.command == _BALANCER:
        from kubeloop.cli.commands.balancer import run_balancer

        return run_balancer(options)
    if options.command == _CHAOS:
        from kubeloop.cli.commands.chaos import run_chaos

        return run_chaos(options)
    if options.command in (_SNAPSHOT, _MIGRATE):
        from kubeloop.cli.commands.snapshot import run_migrate, run_snapshot

        return run_snapshot(options) if options.command == _SNAPSHOT else run_migrate(options)
    if options.command == "why-pending":
        from kubeloop.cli.scheduler.pending_diagnosis import run_why_pending

        return run_why_pending(options)
    if options.command == "node":
        from kubeloop.cli.commands.node import run_node

        return run_node(options)
    print(f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})")
    return 0


def _parser(command: str = "") -> argparse.ArgumentParser:
    """Build the parser for one command: the large flag sets of others are omitted."""
    parser = argparse.ArgumentParser("kubeloop", description=_ABOUT, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up_flags.add_command(commands)
    apiserver_flags.add_command(commands, with_flags=command in ("", "apiserver"))
    _add_node_command(commands)
    manager = commands.add_parser(_MANAGER, help="run only the controllers", allow_abbrev=False)
    if command == _MANAGER:
        from kubeloop.cli.controller_manager.flags import add_flags

        add_flags(manager)
    scheduler = commands.add_parser(_SCHEDULER, help="run only the scheduler", allow_abbrev=False)
    if command == _SCHEDULER:
        from kubeloop.cli.scheduler import flags as scheduler_flags

        scheduler_flags.add_flags(scheduler)
    cloud = commands.add_parser(_CLOUD, help="run only the cloud controllers", allow_abbrev=False)
    if command == _CLOUD:
        from kubeloop.cli.cloud_controller_manager import flags as cloud_controller_manager_flags

        cloud_controller_manager_flags.add_flags(cloud)
    kubelet = commands.add_parser(_KUBELET, help="run only kubelets", allow_abbrev=False)
    if command == _KUBELET:
        from kubeloop.cli.kubelet import flags as kubelet_flags

        kubelet_flags.add_flags(kubelet)
    balancer = commands.add_parser(_BALANCER, help="balance connections over several API servers", allow_abbrev=False)
    if command == _BALANCER:
        from kubeloop.cli.commands import balancer as balancer_command

        balancer_command.add_flags(balancer)
    chaos = commands.add_parser(_CHAOS, help="inject faults into a plane and check its guarantees", allow_abbrev=False)
    if command == _CHAOS:
        from kubeloop.cli.commands import chaos as chaos_command

        chaos_command.add_flags(chaos)
    snapshot = commands.add_parser(
        _SNAPSHOT, help="save a cluster to a file, restore it, or fork it", allow_abbrev=False
    )
    migrate = commands.add_parser(_MIGRATE, help="move a cluster from one store to another", allow_abbrev=False)
    if command in (_SNAPSHOT, _MIGRATE):
        from kubeloop.cli.commands import snapshot as snapshot_command

        snapshot_command.add_snapshot_flags(snapshot)
        snapshot_command.add_migrate_flags(migrate)
    why = commands.add_parser("why-pending", help="explain for each node why a pod is pending", allow_abbrev=False)
    why.add_argument("pod", help="name of the pod")
    why.add_argument("-n", "--namespace", default="default", help="namespace of the pod (default: default)")
    why.add_argument(
        "--kubeconfig", default="", help="kubeconfig with the API server and the credentials (default: as kubectl)"
    )
    why.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="output format (default: table)"
    )
    commands.add_parser("version", help="print the version", description="Print the version.")
    return parser


def _add_node_command(commands: Any) -> None:
    """Add the `node` command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "node", help="manage nodes", description=_ABOUT_NODE, allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, about in _NODE_ACTIONS:
        action = actions.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False)
        action.add_argument(
            "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the plane (default: as kubectl)"
        )
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


if __name__ == "__main__":
    sys.exit(main())
