# SPDX-License-Identifier: Apache-2.0
"""`kubeloop stop` and `kubeloop delete`: end clusters on this machine, and remove their data."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kubeloop.cli.local_clusters.network_status import NETWORK_FOLDER
from kubeloop.cli.local_clusters.registry import DEFAULT_NAME, ClusterError, ClusterRegistry
from kubeloop.cli.pki.kubeconfig import KubeconfigError, remove_context
from kubeloop.cli.program.output import NAME, ResultPrinter, add_output_flag

_POLL_SECONDS: Final = 0.05
_STOP_EXAMPLES: Final = """Examples:
  # The only running cluster, or the one named kubeloop
  kubeloop stop

  # Two clusters by name
  kubeloop stop kubeloop large
"""
_DELETE_EXAMPLES: Final = """Examples:
  # The only cluster, or the one named kubeloop
  kubeloop delete

  # All clusters on this machine
  kubeloop delete --all
"""


def add_stop_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `stop`."""
    parser.epilog = _STOP_EXAMPLES
    parser.description = "Stop running clusters. Their data is kept: 'kubeloop up --name NAME' continues with it."
    _add_flags(parser)


def add_delete_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `delete`."""
    parser.epilog = _DELETE_EXAMPLES
    parser.description = (
        "Stop clusters, delete their data and the containers of a real node, and remove their contexts from your "
        "kubeconfig."
    )
    _add_flags(parser)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"name of a cluster (default: {DEFAULT_NAME}, or the only one)"
    )
    parser.add_argument("--all", action="store_true", help="all clusters on this machine")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="seconds to wait for the end (default: 60)"
    )
    add_output_flag(parser, NAME)


def run_stop(options: argparse.Namespace) -> int:
    """Stop clusters; returns the exit code."""
    registry, printer = ClusterRegistry(), ResultPrinter(options.output)
    try:
        for name in _names(options, [record.name for record in registry.running()]):
            if not stop_cluster(registry, name, options.timeout):
                raise ClusterError(f"cluster {name!r} is not running")
            printer.report("cluster", name, "stopped", f"cluster {name!r} stopped")
    except ClusterError as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    finally:
        printer.close()
    return 0


def run_delete(options: argparse.Namespace) -> int:
    """Delete clusters; returns the exit code."""
    registry, printer = ClusterRegistry(), ResultPrinter(options.output)
    known = sorted({*registry.stored(), *(record.name for record in registry.running())})
    try:
        for name in _names(options, known):
            _delete(registry, name, options.timeout)
            printer.report("cluster", name, "deleted", f"cluster {name!r} deleted")
    except (ClusterError, KubeconfigError, OSError) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    finally:
        printer.close()
    return 0


def stop_cluster(registry: ClusterRegistry, name: str, timeout: float) -> bool:
    """Stop a cluster and wait for its end; returns False if it does not run."""
    record = registry.find(name)
    if record is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    try:
        asyncio.run(_wait_ended(registry, name, timeout))
    except TimeoutError:
        raise ClusterError(f"cluster {name!r} (pid {record.pid}) still runs after {timeout:g} s") from None
    return True


async def _wait_ended(registry: ClusterRegistry, name: str, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while registry.find(name) is not None:  # noqa: ASYNC110  # the end of another process sends no event
            await asyncio.sleep(_POLL_SECONDS)


def _delete(registry: ClusterRegistry, name: str, timeout: float) -> None:
    stopped = stop_cluster(registry, name, timeout)
    _remove_containers(registry.data_dir(name))
    entry = registry.kubeconfig_entry(name)
    if entry is not None:
        remove_context(Path(entry.file), entry.context)
    if not registry.remove_data(name) and not stopped:
        raise ClusterError(f"there is no cluster {name!r}: see 'kubeloop status'")


def _remove_containers(data: Path) -> None:
    """Remove the containers of a cluster with a real node, which outlive its process, and then their network."""
    if not (data / "kubelet").is_dir():  # most clusters have none, and do without the imports
        return
    from kubeloop.cli.kubelet.node_record import NodeRecordError, remove_node_pods

    try:
        remove_node_pods(data)
    except NodeRecordError as error:
        raise ClusterError(str(error)) from None
    if (data / NETWORK_FOLDER).is_dir():
        from kubeloop.cli.network.removal import remove_network_in

        remove_network_in(data / NETWORK_FOLDER)


def _names(options: argparse.Namespace, known: Sequence[str]) -> Sequence[str]:
    """Return the clusters that are meant."""
    if options.all:
        return known
    if options.names:
        return list(options.names)
    if DEFAULT_NAME in known or not known:
        return (DEFAULT_NAME,)
    if len(known) == 1:
        return known
    raise ClusterError(f"which cluster? There are: {', '.join(known)}")
