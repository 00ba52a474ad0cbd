# SPDX-License-Identifier: Apache-2.0
"""Command line entry point: a table of commands, and the choice of one.

The modules of a command are imported when it runs, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, NamedTuple

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.program.parser import CommandParser

_ABOUT: Final = f"""\
Kubernetes' control plane in Python: kubeloop {__version__}, with the API of Kubernetes {KUBERNETES_VERSION}.
"""
_EXAMPLES: Final = """\
Examples:
  # Run a cluster until Ctrl-C, with all state in memory
  kubeloop up --ephemeral

  # Run a cluster with three nodes in the background, and use it
  kubeloop up --detach --nodes 3 --kubeconfig ~/.kube/config
  kubectl --context kubeloop get nodes

  # Show the clusters on this machine; stop one; delete one with its data
  kubeloop status
  kubeloop stop
  kubeloop delete

Run 'kubeloop COMMAND --help' for the flags of a command.
"""


class Command(NamedTuple):
    """Command of the program; its functions are named as `module:function` below `kubeloop.cli`."""

    name: str
    summary: str
    run: str
    flags: str = ""  # function that adds the flags to a parser


GROUPS: Final[tuple[tuple[str, tuple[Command, ...]], ...]] = (
    (
        "Clusters on this machine",
        (
            Command("up", "Run a cluster", "up.run:run_up", "up.flags:add_flags"),
            Command("status", "Show clusters", "commands.status:run_status", "commands.status:add_flags"),
            Command("stop", "Stop clusters", "commands.stop:run_stop", "commands.stop:add_stop_flags"),
            Command(
                "delete",
                "Delete clusters with their data",
                "commands.stop:run_delete",
                "commands.stop:add_delete_flags",
            ),
        ),
    ),
    (
        "Use a cluster",
        (
            Command("node", "Manage nodes", "commands.node:run_node", "commands.node_flags:add_flags"),
            Command(
                "why-pending",
                "Explain for each node why a pod is pending",
                "scheduler.pending_diagnosis:run_why_pending",
                "scheduler.pending_diagnosis:add_flags",
            ),
            Command(
                "why-packet",
                "Explain where the service proxy of a node sends a packet",
                "proxy.packet_diagnosis:run_why_packet",
                "proxy.packet_diagnosis:add_flags",
            ),
            Command(
                "snapshot",
                "Save a cluster to a file, restore it, or fork it",
                "commands.snapshot:run_snapshot",
                "commands.snapshot:add_snapshot_flags",
            ),
            Command(
                "migrate",
                "Move a cluster from one store to another",
                "commands.snapshot:run_migrate",
                "commands.snapshot:add_migrate_flags",
            ),
            Command(
                "chaos",
                "Inject faults into a cluster and check its guarantees",
                "commands.chaos:run_chaos",
                "commands.chaos:add_flags",
            ),
        ),
    ),
    (
        "Components",
        (
            Command("apiserver", "Run the API server", "apiserver.run:run_apiserver", "apiserver.flags:add_flags"),
            Command(
                "controller-manager",
                "Run the controllers",
                "controller_manager.run:run_controller_manager",
                "controller_manager.flags:add_flags",
            ),
            Command("scheduler", "Run the scheduler", "scheduler.run:run_scheduler", "scheduler.flags:add_flags"),
            Command(
                "cloud-controller-manager",
                "Run the cloud controllers",
                "cloud_controller_manager.run:run_cloud_controller_manager",
                "cloud_controller_manager.flags:add_flags",
            ),
            Command("kubelet", "Run kubelets", "kubelet.run:run_kubelet", "kubelet.flags:add_flags"),
            Command("dns", "Run the cluster's DNS server", "dns.run:run_dns", "dns.flags:add_flags"),
            Command(
                "network",
                "Run the pod network and the network policies of a node",
                "network.run:run_network",
                "network.flags:add_flags",
            ),
            Command("proxy", "Run the service proxy of a node", "proxy.run:run_proxy", "proxy.flags:add_flags"),
            Command(
                "balancer",
                "Balance connections over several API servers",
                "commands.balancer:run_balancer",
                "commands.balancer:add_flags",
            ),
        ),
    ),
    (
        "Write an operator",
        (
            Command(
                "crd",
                "Generate CustomResourceDefinitions from Python classes",
                "commands.crd:run_crd",
                "commands.crd:add_flags",
            ),
        ),
    ),
    (
        "Other",
        (
            Command(
                "completion",
                "Print a completion script for bash, zsh or fish",
                "commands.completion:run_completion",
                "commands.completion:add_flags",
            ),
            Command("version", "Print the version", "main:run_version", "main:add_version_flags"),
        ),
    ),
)
COMMANDS: Final = {command.name: command for _, group in GROUPS for command in group}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if given[0] in ("-V", "--version"):
        return run_version()
    command = COMMANDS.get(given[0])
    if command is None:
        return _reject(given[0])
    options = build_parser(command.name).parse_args(given[1:], argparse.Namespace(arguments=given))
    run = _function(command.run)
    return int(run(options))


def build_parser(command: str) -> CommandParser:
    """Build the parser of one command's flags."""
    found = COMMANDS[command]
    parser = CommandParser(f"kubeloop {command}", description=f"{found.summary}.")
    if found.flags:
        _function(found.flags)(parser)
    return parser


def parse_command(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line that begins with a command."""
    return build_parser(arguments[0]).parse_args(arguments[1:])


def add_version_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `version`."""
    from kubeloop.cli.program.output import add_output_flag

    parser.epilog = "Examples:\n  # Versions of kubeloop, its API and Python\n  kubeloop version -o yaml\n"
    add_output_flag(parser)


def run_version(options: argparse.Namespace | None = None) -> int:
    """Print the version; returns the exit code."""
    if options is not None and options.output:
        from kubeloop.cli.program.output import format_document

        versions = {"kubeloop": __version__, "kubernetes": KUBERNETES_VERSION, "python": platform.python_version()}
        print(format_document(versions, options.output))
        return 0
    print(f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})")
    return 0


def _function(path: str) -> Any:
    """Import the function of a command."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"kubeloop.cli.{module}"), name)


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    parts = [_ABOUT, "Usage:\n  kubeloop COMMAND [flags]\n"]
    for title, commands in GROUPS:
        parts += [f"{title}:", *(f"  {one.name.ljust(width)}{one.summary}" for one in commands), ""]
    return "\n".join((*parts, _EXAMPLES)).rstrip()


def _reject(name: str) -> int:
    near = get_close_matches(name, COMMANDS, n=1)
    what = "flag" if name.startswith("-") else "command"
    hint = f"; did you mean {near[0]}?" if near else ""
    print(f"error: unknown {what}: {name}{hint}\nRun 'kubeloop --help' for all commands.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
