# SPDX-License-Identifier: Apache-2.0
"""Files of control groups: the mounted hierarchies, and how limits are written to and read from them."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from kubeloop.kubelet.cm.cgroups.resource_config import (
    QUOTA_PERIOD,
    ResourceConfig,
    format_page_size,
    shares_to_weight,
    weight_to_shares,
)

MOUNT_INFO = Path("/proc/self/mountinfo")
_ROOT = Path("/sys/fs/cgroup")
_KNOWN = frozenset(("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "pids", "systemd"))
_REQUIRED = ("cpu", "cpuacct", "cpuset", "memory", "systemd", "pids", "hugetlb")  # if they are mounted
_UNIFIED = "unified"  # version 2 beside version 1
_FLAGS = frozenset(("rw", "ro", "xattr", "clone_children"))  # options of mounts that are no controllers
_UNIFIED_CONTROLLERS = ("cpu", "cpuset", "memory", "hugetlb", "pids")
_NO_MEMORY_LIMIT = 1 << 62  # values from here on mean no limit with version 1


class CgroupError(Exception):
    """Raised if a control group cannot be created, changed or read; the message names it."""


class CgroupHierarchy(ABC):
    """Mounted control groups of one version; groups are paths that begin with a slash."""

    version: int

    @abstractmethod
    def folders(self, group: str) -> Iterable[Path]:
        """Return the folders of a group, in all its hierarchies."""

    @abstractmethod
    def missing(self, group: str) -> list[str]:
        """Return what of a group does not exist; empty if it exists."""

    @abstractmethod
    def create(self, group: str) -> None:
        """Create a group and its parents. Raises `OSError`."""

    @abstractmethod
    def files_of(self, config: ResourceConfig, page_sizes: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """Yield controller, file and content for each limit."""

    @abstractmethod
    def file(self, controller: str, group: str, name: str) -> Path:
        """Return the path of a group's file."""

    @abstractmethod
    def read_cpu(self, group: str) -> ResourceConfig:
        """Return the CPU limits of a group. Raises `OSError` or `ValueError`."""

    @abstractmethod
    def read_memory_limit(self, group: str) -> int:
        """Return the memory limit of a group in bytes; -1 for none. Raises `OSError` or `ValueError`."""

    @abstractmethod
    def read_memory_usage(self, group: str) -> int:
        """Return the memory that a group uses. Raises `OSError` or `ValueError`."""

    def write(self, group: str, config: ResourceConfig, page_sizes: Iterable[str]) -> None:
        """Write the limits of a group. Raises `CgroupError` for the first that is refused."""
        retries = []
        for controller, name, content in self.files_of(config, page_sizes):
            file = self.file(controller, group, name)
            try:
                _write(file, content)
            except OSError as error:
                if error.errno == errno.EINVAL and name == "cpu.cfs_period_us":
                    retries.append((file, content))  # together with the quota of before, it exceeds the parent's
                    continue
                raise CgroupError(f"failed to write {content!r} to {file}: {error.strerror}") from None
        for file, content in retries:
            try:
                _write(file, content)
            except OSError as error:
                raise CgroupError(f"failed to write {content!r} to {file}: {error.strerror}") from None

    def processes(self, group: str) -> set[int]:
        """Return the processes in a group and the groups below it."""
        found: set[int] = set()
        for folder in self.folders(group):
            for path, _, _ in os.walk(folder):
                with suppress(OSError):
                    found.update(map(int, (Path(path) / "cgroup.procs").read_text().split()))
        return found

    def remove(self, group: str) -> None:
        """Remove a group and all below it. Raises `OSError` if a process is left in one."""
        for folder in self.folders(group):
            for path, _, _ in os.walk(folder, topdown=False):
                with suppress(FileNotFoundError):
                    os.rmdir(path)

    def children(self, group: str) -> set[str]:
        """Return the names of the groups directly below a group, in any hierarchy."""
        found: set[str] = set()
        for folder in self.folders(group):
            with suppress(OSError):
                found.update(one.name for one in os.scandir(folder) if one.is_dir(follow_symlinks=False))
        return found


class CgroupV1(CgroupHierarchy):
    """Version 1: one hierarchy for each controller, or several of them together."""

    version = 1

    def __init__(self, mounts: Mapping[str, Path]) -> None:
        self._mounts = {name: path for name, path in mounts.items() if name in _KNOWN}
        self._roots = tuple(dict.fromkeys(mounts.values()))  # also of others, in which runtimes create groups

    def folders(self, group: str) -> Iterable[Path]:
        """Return the folders of a group, in all its hierarchies."""
        return [root / group.strip("/") for root in self._roots]

    def missing(self, group: str) -> list[str]:
        """Return the folders of a group that do not exist."""
        wanted = dict.fromkeys(self._mounts[name] / group.strip("/") for name in _REQUIRED if name in self._mounts)
        return [str(one) for one in wanted if not one.is_dir()]

    def create(self, group: str) -> None:
        """Create a group and its parents; those with CPU sets get the CPUs of their parents."""
        for mount in dict.fromkeys(self._mounts.values()):
            (mount / group.strip("/")).mkdir(mode=0o755, parents=True, exist_ok=True)
        if (root := self._mounts.get("cpuset")) is not None:
            folder = root
            for part in Path(group.strip("/")).parts:
                folder = folder / part
                for name in ("cpuset.cpus", "cpuset.mems"):
                    _inherit(folder / name, folder.parent / name)

    def files_of(self, config: ResourceConfig, page_sizes: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """Yield controller, file and content for each limit."""
        if config.cpu_shares is not None:
            yield "cpu", "cpu.shares", str(config.cpu_shares)
        if config.cpu_period:
            yield "cpu", "cpu.cfs_period_us", str(config.cpu_period)
        if config.cpu_quota:
            yield "cpu", "cpu.cfs_quota_us", str(config.cpu_quota)
        if config.memory:
            yield "memory", "memory.limit_in_bytes", str(config.memory)
        if config.pids is not None:
            yield "pids", "pids.max", _or_max(config.pids)
        if config.cpus:
            yield "cpuset", "cpuset.cpus", config.cpus
        if config.huge_pages is not None and "hugetlb" in self._mounts:
            for size, limit in _page_limits(config.huge_pages, page_sizes):
                yield "hugetlb", f"hugetlb.{size}.limit_in_bytes", str(limit)

    def file(self, controller: str, group: str, name: str) -> Path:
        """Return the path of a group's file. Raises `CgroupError` for a controller that is not mounted."""
        if (root := self._mounts.get(controller)) is None:
            raise CgroupError(f"no cgroup v1 mountpoint for {controller} controller found")
        return root / group.strip("/") / name

    def read_cpu(self, group: str) -> ResourceConfig:
        """Return the CPU limits of a group."""
        names = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        shares, quota, period = (int(self.file("cpu", group, name).read_text()) for name in names)
        return ResourceConfig(cpu_shares=shares, cpu_quota=quota, cpu_period=period)

    def read_memory_limit(self, group: str) -> int:
        """Return the memory limit of a group in bytes; -1 for none."""
        limit = int(self.file("memory", group, "memory.limit_in_bytes").read_text())
        return -1 if limit >= _NO_MEMORY_LIMIT else limit

    def read_memory_usage(self, group: str) -> int:
        """Return the memory that a group uses."""
        return int(self.file("memory", group, "memory.usage_in_bytes").read_text())


class CgroupV2(CgroupHierarchy):
    """Version 2: one hierarchy, whose groups enable controllers for those below them."""

    version = 2

    def __init__(self, root: Path = _ROOT) -> None:
        self._root = root

    def folders(self, group: str) -> Iterable[Path]:
        """Return the folder of a group."""
        return (self._folder(group),)

    def missing(self, group: str) -> list[str]:
        """Return the controllers that a group lacks, or all of it."""
        try:
            found = (self._folder(group) / "cgroup.controllers").read_text().split()
        except OSError:
            return [str(self._folder(group))]
        return [name for name in self._controllers() if name not in found]

    def create(self, group: str) -> None:
        """Create a group and its parents, which enable the controllers."""
        folder, wanted = self._root, self._controllers()
        for part in Path(group.strip("/")).parts:
            self._enable(folder, wanted)
            folder = folder / part
            folder.mkdir(mode=0o755, exist_ok=True)

    def files_of(self, config: ResourceConfig, page_sizes: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """Yield controller, file and content for each limit."""
        if config.cpu_shares is not None:
            yield "cpu", "cpu.weight", str(shares_to_weight(config.cpu_shares))
        if config.cpu_quota or config.cpu_period:
            quota = config.cpu_quota if config.cpu_quota is not None and config.cpu_quota > 0 else -1
            yield "cpu", "cpu.max", f"{_or_max(quota)} {config.cpu_period or QUOTA_PERIOD}"
        if config.memory:
            yield "memory", "memory.max", _or_max(config.memory)
        if config.pids is not None:
            yield "pids", "pids.max", _or_max(config.pids)
        if config.cpus:
            yield "cpuset", "cpuset.cpus", config.cpus
        if config.huge_pages is not None and "hugetlb" in self._controllers():
            for size, limit in _page_limits(config.huge_pages, page_sizes):
                yield "hugetlb", f"hugetlb.{size}.max", str(limit)
        for name, content in config.unified.items():
            yield name.partition(".")[0], name, content

    def file(self, controller: str, group: str, name: str) -> Path:
        """Return the path of a group's file."""
        return self._folder(group) / name

    def read_cpu(self, group: str) -> ResourceConfig:
        """Return the CPU limits of a group."""
        quota, period = self.file("cpu", group, "cpu.max").read_text().split()
        weight = int(self.file("cpu", group, "cpu.weight").read_text())
        return ResourceConfig(weight_to_shares(weight), -1 if quota == "max" else int(quota), int(period))

    def read_memory_limit(self, group: str) -> int:
        """Return the memory limit of a group in bytes; -1 for none."""
        text = self.file("memory", group, "memory.max").read_text().strip()
        return -1 if text == "max" else int(text)

    def read_memory_usage(self, group: str) -> int:
        """Return the memory that a group uses."""
        return int(self.file("memory", group, "memory.current").read_text())

    def _folder(self, group: str) -> Path:
        return self._root / group.strip("/")

    def _controllers(self) -> list[str]:
        found = (self._root / "cgroup.controllers").read_text().split()
        return [name for name in _UNIFIED_CONTROLLERS if name in found]

    def _enable(self, folder: Path, wanted: list[str]) -> None:
        control = folder / "cgroup.subtree_control"
        enabled = control.read_text().split()
        if missing := [name for name in wanted if name not in enabled]:
            _write(control, " ".join(f"+{name}" for name in missing))


def read_hierarchy(mount_info: Path = MOUNT_INFO) -> CgroupHierarchy:
    """Return the mounted hierarchies of this machine. Raises `CgroupError` without any."""
    mounts: dict[str, Path] = {}
    for line in mount_info.read_text().splitlines():
        fields, _, source = line.partition(" - ")
        kind, _, options = source.split(maxsplit=2)
        point = Path(fields.split()[4])
        if kind == "cgroup2" and point == _ROOT:
            return CgroupV2(point)
        for name in _controllers_of(kind, options):
            if name not in mounts or len(str(point)) < len(str(mounts[name])):
                mounts[name] = point
    if not _KNOWN & mounts.keys():
        raise CgroupError("failed to find cgroup mounts")
    return CgroupV1(mounts)


def _controllers_of(kind: str, options: str) -> list[str]:
    """Return the controllers of a mounted file system of version 1, and a name for version 2 beside it."""
    if kind == "cgroup2":
        return [_UNIFIED]
    names = (one.removeprefix("name=") for one in options.split(","))
    return [name for name in names if name not in _FLAGS] if kind == "cgroup" else []


def _page_limits(limits: Mapping[int, int], sizes: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the limit of each page size of the machine: none of them unless it is set."""
    named = {format_page_size(size): limit for size, limit in limits.items()}
    return ((size, named.get(size, 0)) for size in sizes)


def _or_max(number: int) -> str:
    return "max" if number < 0 else str(number)


def _inherit(file: Path, parent: Path) -> None:
    """Copy the CPUs or memory nodes of the parent if there are none: processes cannot enter such a group."""
    with suppress(FileNotFoundError):
        if not file.read_text().strip():
            _write(file, parent.read_text().strip())


def _write(file: Path, content: str) -> None:
    """Write a file in one call, as the kernel wants it."""
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, content.encode())
    finally:
        os.close(descriptor)
