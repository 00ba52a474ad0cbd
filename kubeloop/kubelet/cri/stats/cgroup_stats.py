# SPDX-License-Identifier: Apache-2.0
"""Usage of control groups, of versions 1 and 2; absent groups and controllers give None."""

from __future__ import annotations

from pathlib import Path

from kubeloop.kubelet.cri.stats.summary import MemoryStats

_MICRO = 1000


class CgroupReader:
    """Reads the usage of the control groups below a mount point; paths begin with a slash."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._root = root
        self._is_unified = (root / "cgroup.controllers").exists()

    def cpu_nanoseconds(self, group: str) -> int | None:
        """Return the CPU time used so far."""
        if not self._is_unified:
            return _number(self._file("cpuacct", group, "cpuacct.usage"))
        used = _table(self._file("cpu", group, "cpu.stat")).get("usage_usec")
        return None if used is None else used * _MICRO

    def memory(self, group: str, time: str) -> MemoryStats | None:
        """Return the memory used at a time: the working set is without file pages that can be dropped."""
        stat = _table(self._file("memory", group, "memory.stat"))
        usage = self._memory_usage(group)
        if usage is None or not stat:
            return None
        prefix = "" if self._is_unified else "total_"
        return MemoryStats(
            time=time,
            usage_bytes=usage,
            working_set_bytes=max(usage - stat.get(f"{prefix}inactive_file", 0), 0),
            rss_bytes=stat.get("anon" if self._is_unified else "total_rss"),
            page_faults=stat.get(f"{prefix}pgfault"),
            major_page_faults=stat.get(f"{prefix}pgmajfault"),
        )

    def processes(self, group: str) -> int | None:
        """Return the number of processes."""
        return _number(self._file("pids", group, "pids.current"))

    def _memory_usage(self, group: str) -> int | None:
        if not self._is_unified:
            return _number(self._file("memory", group, "memory.usage_in_bytes"))
        if group != "/":
            return _number(self._file("memory", group, "memory.current"))
        info = _table(Path("/proc/meminfo"))  # the root group has no usage of its own
        return (info["MemTotal:"] - info["MemFree:"]) * 1024 if "MemFree:" in info else None

    def _file(self, controller: str, group: str, name: str) -> Path:
        root = self._root if self._is_unified else self._root / controller
        return root / group.strip("/") / name


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _table(file: Path) -> dict[str, int]:
    """Return the first number of each line, by the word before it."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
