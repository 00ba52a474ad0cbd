# SPDX-License-Identifier: Apache-2.0
"""Removes everything that a real node of the tests has left, also if the tests were killed.

python -m tests.realnode.cleanup PID NAMESPACE FOLDER    waits for the end of a process, then cleans up
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MOST_ROUNDS = 100  # a process may start another one while it is killed


def watch(namespace: str, folder: Path) -> None:
    """Start a process that cleans up when this one has ended, however that happens."""
    command = [sys.executable, "-m", "tests.realnode.cleanup", str(os.getpid()), namespace, str(folder)]
    subprocess.run(["setsid", "--fork", *command], check=True, stdin=subprocess.DEVNULL)


def clean(namespace: str, folder: Path) -> None:
    """Kill the processes of a network namespace and the containers of its runtime; remove mounts, groups and files."""
    for _ in range(_MOST_ROUNDS):
        if not (found := {*_processes_in(namespace), *_containers_of(folder)}):
            break
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    for group in Path("/sys/fs/cgroup").glob(f"*/{namespace}"):
        for path, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
    subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def _processes_in(namespace: str) -> Iterator[int]:
    """Yield the processes of a network namespace, without this one."""
    with suppress(OSError):
        inode = os.stat(f"/run/netns/{namespace}").st_ino
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and os.stat(entry / "ns/net").st_ino == inode:
                    yield int(entry.name)


def _containers_of(folder: Path) -> Iterator[int]:
    """Yield the shims of a containerd, which outlive it, and what they have started."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if not entry.name.isdigit():
                continue
            command = (entry / "cmdline").read_bytes()
            if b"containerd-shim" in command and f"{folder}/".encode() in command:
                yield from _descendants(int(entry.name))
                yield int(entry.name)


def _descendants(process: int) -> list[int]:
    with suppress(OSError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [one for child in map(int, children) for one in (*_descendants(child), child)]
    return []


if __name__ == "__main__":
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
    clean(sys.argv[2], Path(sys.argv[3]))
