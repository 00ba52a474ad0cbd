# SPDX-License-Identifier: Apache-2.0
"""`kubeloop up --detach`: starts the same command in the background and waits until the cluster is ready."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kubeloop.cli.local_clusters.registry import ClusterError, ClusterRecord, ClusterRegistry
from kubeloop.cli.program.output import NAME, format_document

LOG_VARIABLE: Final = "KUBELOOP_LOG_FILE"  # tells the background process where its output goes
_POLL_SECONDS: Final = 0.05
_LAST_LINES: Final = 10  # of the log, shown if the start fails


def run_detached(registry: ClusterRegistry, name: str, arguments: Sequence[str], output: str = "") -> int:
    """Start a cluster in the background; returns the exit code once it is ready or has failed."""
    try:
        with registry.reserved(name) as free:
            name = free
    except ClusterError as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    log = registry.log_file(name)
    process = _start([*(one for one in arguments if one != "--detach"), "--name", name], log)
    record = asyncio.run(_wait_ready(registry, name, process))
    if record is None:
        print(f"kubeloop: cluster {name!r} did not start; the end of {log}:", file=sys.stderr)
        print("".join(log.read_text(errors="replace").splitlines(keepends=True)[-_LAST_LINES:]), file=sys.stderr)
        return process.returncode or 1
    print(format_record(record, output))
    return 0


def format_record(record: ClusterRecord, output: str) -> str:
    """Format a cluster that has become ready in the background."""
    if output:
        return record.name if output == NAME else format_document(record, output)
    ready = f"cluster {record.name!r} is ready at {record.server}: export KUBECONFIG={record.kubeconfig}"
    return f"{ready}\n  log:  {record.log}\n  stop: kubeloop stop {record.name}"


def _start(arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "kubeloop", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, LOG_VARIABLE: str(log)},
            start_new_session=True,  # it outlives the terminal
        )


async def _wait_ready(registry: ClusterRegistry, name: str, process: subprocess.Popen[bytes]) -> ClusterRecord | None:
    while process.poll() is None:
        record = registry.find(name)
        if record is not None and record.is_ready:
            return record
        await asyncio.sleep(_POLL_SECONDS)
    return None
