# SPDX-License-Identifier: Apache-2.0
"""Usage of the machine of a real node: file systems, network interfaces, processes, swap, time of the last boot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kubeloop.api.scalars.times import format_time
from kubeloop.kubelet.cri.stats.summary import FsStats, InterfaceStats, NetworkStats, RlimitStats, SwapStats

_KIBI = 1024
_DEFAULT_DESTINATION = "00000000"


class MachineReader:
    """Reads a proc file system."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def boot_time(self) -> str:
        """Return the time of the last boot."""
        lines = (line.split() for line in self._lines("stat"))
        seconds = next((int(words[1]) for words in lines if words[:1] == ["btime"]), 0)
        return format_time(datetime.fromtimestamp(seconds, UTC))

    def rlimit(self, time: str) -> RlimitStats:
        """Return the number of processes and its limit."""
        limits = (self._lines(f"sys/kernel/{name}") for name in ("pid_max", "threads-max"))
        known = [int(lines[0]) for lines in limits if lines]
        loads = self._lines("loadavg")
        running = int(loads[0].split()[3].partition("/")[2]) if loads else None
        return RlimitStats(time=time, maxpid=min(known, default=None), curproc=running)

    def swap(self, time: str) -> SwapStats:
        """Return the usage of swap."""
        found = {words[0]: int(words[1]) * _KIBI for words in map(str.split, self._lines("meminfo")) if len(words) > 1}
        free = found.get("SwapFree:", 0)
        return SwapStats(time=time, swap_available_bytes=free, swap_usage_bytes=found.get("SwapTotal:", 0) - free)

    def network(self, time: str) -> NetworkStats | None:
        """Return the traffic of all interfaces but the loopback one; None without any."""
        interfaces = tuple(self._interfaces())
        if not interfaces:
            return None
        name = self._default_interface()
        chosen = next((one for one in interfaces if one.name == name), interfaces[0])
        return NetworkStats(time=time, interfaces=interfaces, **msgspec.structs.asdict(chosen))

    def _interfaces(self) -> Iterator[InterfaceStats]:
        for line in self._lines("net/dev"):
            name, colon, rest = line.partition(":")
            numbers = rest.split()
            if colon and name.strip() != "lo" and len(numbers) > 10:
                rx, rx_errors, tx, tx_errors = (int(numbers[at]) for at in (0, 2, 8, 10))
                yield InterfaceStats(
                    name=name.strip(), rx_bytes=rx, rx_errors=rx_errors, tx_bytes=tx, tx_errors=tx_errors
                )

    def _default_interface(self) -> str:
        routes = (line.split() for line in self._lines("net/route"))
        return next((words[0] for words in routes if len(words) > 1 and words[1] == _DEFAULT_DESTINATION), "")

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:
            return []


def fs_stats(path: Path, time: str) -> FsStats | None:
    """Return the usage of the file system of a folder, or of the nearest one above; None if it cannot be read."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return FsStats(
        time=time,
        available_bytes=found.f_bavail * found.f_frsize,
        capacity_bytes=found.f_blocks * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes_free=found.f_ffree,
        inodes=found.f_files,
        inodes_used=found.f_files - found.f_ffree,
    )
