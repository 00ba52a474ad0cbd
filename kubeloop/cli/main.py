"""Command line entry point: passes the options of a command to the module that runs it.

These modules are imported when a command runs, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.apiserver import flags as apiserver_flags
from kubeloop.cli.commands import node_flags
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
        from kubeloop.cli.scheduler.why_pending import run_why_pending

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
    node_flags.add_command(commands)
    manager = commands.add_parser(_MANAGER, help="run the controllers alone", allow_abbrev=False)
    if command == _MANAGER:
        from kubeloop.cli.controller_manager.flags import add_flags

        add_flags(manager)
    scheduler = commands.add_parser(_SCHEDULER, help="run the scheduler alone", allow_abbrev=False)
    if command == _SCHEDULER:
        from kubeloop.cli.scheduler import flags as scheduler_flags

        scheduler_flags.add_flags(scheduler)
    cloud = commands.add_parser(_CLOUD, help="run the cloud's controllers alone", allow_abbrev=False)
    if command == _CLOUD:
        from kubeloop.cli.cloud_controller_manager import flags as cloud_controller_manager_flags

        cloud_controller_manager_flags.add_flags(cloud)
    kubelet = commands.add_parser(_KUBELET, help="run nodes alone", allow_abbrev=False)
    if command == _KUBELET:
        from kubeloop.cli.kubelet import flags as kubelet_flags

        kubelet_flags.add_flags(kubelet)
    balancer = commands.add_parser(_BALANCER, help="give several API servers one address", allow_abbrev=False)
    if command == _BALANCER:
        from kubeloop.cli.commands import balancer as balancer_command

        balancer_command.add_flags(balancer)
    chaos = commands.add_parser(_CHAOS, help="let things go wrong on purpose", allow_abbrev=False)
    if command == _CHAOS:
        from kubeloop.cli.commands import chaos as chaos_command

        chaos_command.add_flags(chaos)
    snapshot = commands.add_parser(_SNAPSHOT, help="save a cluster in a file, restore it, fork it", allow_abbrev=False)
    migrate = commands.add_parser(_MIGRATE, help="move a cluster from one store to another", allow_abbrev=False)
    if command in (_SNAPSHOT, _MIGRATE):
        from kubeloop.cli.commands import snapshot as snapshot_command

        snapshot_command.add_snapshot_flags(snapshot)
        snapshot_command.add_migrate_flags(migrate)
    why = commands.add_parser("why-pending", help="tell why a pod has no node, node by node", allow_abbrev=False)
    why.add_argument("pod", help="the pod's name")
    why.add_argument("-n", "--namespace", default="default", help="(default: default)")
    why.add_argument("--kubeconfig", default="", help="as whom to ask (default: as kubectl does)")
    why.add_argument("-o", "--output", choices=("table", "json"), default="table", help="(default: table)")
    commands.add_parser("version", help="print the version", description="Print the version.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
