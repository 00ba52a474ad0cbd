"""The command line: finds the command, and hands its options to the module that runs it.

Modules that run something are imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli import apiserver_flags, node_flags, up_flags

_ABOUT = (
    f"Kubernetes' control plane in Python: kubeloop {__version__}, with the API of Kubernetes {KUBERNETES_VERSION}."
)
_MANAGER = "controller-manager"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser(given[0] if given else "").parse_args(given)
    if options.command == "up":
        from kubeloop.cli.up import run_up

        return run_up(options)
    if options.command == "apiserver":
        from kubeloop.cli.apiserver import run_apiserver

        return run_apiserver(options)
    if options.command == _MANAGER:
        from kubeloop.cli.controller_manager import run_controller_manager

        return run_controller_manager(options)
    if options.command == "node":
        from kubeloop.cli.node import run_node

        return run_node(options)
    print(f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})")
    return 0


def _parser(command: str = "") -> argparse.ArgumentParser:
    """For one command; the controller manager has so many flags that nobody else should wait for them."""
    parser = argparse.ArgumentParser("kubeloop", description=_ABOUT, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up_flags.add_command(commands)
    apiserver_flags.add_command(commands)
    node_flags.add_command(commands)
    manager = commands.add_parser(_MANAGER, help="run the controllers alone", allow_abbrev=False)
    if command == _MANAGER:
        from kubeloop.cli.controller_manager_flags import add_flags

        add_flags(manager)
    commands.add_parser("version", help="print the version", description="Print the version.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
