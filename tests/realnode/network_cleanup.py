# SPDX-License-Identifier: Apache-2.0
"""Removes network namespaces of tests with a common prefix, and the processes in them, also if the tests were killed.

python -m tests.realnode.network_cleanup PID PREFIX    waits for the end of a process, then cleans up
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_NAMESPACES = Path("/run/netns")
_MOST_ROUNDS = 50  # a process may start another one while it is killed


def watch(prefix: str) -> None:
    """Start a process that cleans up when this one has ended, however that happens."""
    command = [sys.executable, "-m", "tests.realnode.network_cleanup", str(os.getpid()), prefix]
    subprocess.run(["setsid", "--fork", *command], check=True, stdin=subprocess.DEVNULL)


def clean(prefix: str) -> None:
    """Kill the processes of the namespaces, and delete these."""
    for _ in range(_MOST_ROUNDS):
        if not (found := processes_in(prefix)):
            break
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    for path in namespaces(prefix):
        subprocess.run(["ip", "netns", "delete", path.name], check=False, capture_output=True)


def namespaces(prefix: str) -> list[Path]:
    """Return the namespaces with a prefix."""
    return sorted(_NAMESPACES.glob(f"{prefix}*")) if _NAMESPACES.is_dir() else []


def processes_in(prefix: str) -> list[int]:
    """Return the processes of the namespaces, without this one."""
    inodes = {path.stat().st_ino for path in namespaces(prefix)}
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and os.stat(entry / "ns/net").st_ino in inodes:
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
    clean(sys.argv[2])
