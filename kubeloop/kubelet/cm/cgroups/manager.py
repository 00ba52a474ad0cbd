# SPDX-License-Identifier: Apache-2.0
"""Cgroup manager: creates, changes, reads and removes control groups by their names."""

from __future__ import annotations

from dataclasses import replace

from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError, CgroupHierarchy
from kubeloop.kubelet.cm.cgroups.names import CgroupDriver, CgroupName, format_path, parse_driver_path
from kubeloop.kubelet.cm.cgroups.resource_config import MIN_SHARES, ResourceConfig
from kubeloop.kubelet.cm.cgroups.systemd import SystemdSlices

_ROOT_SLICE = "-.slice"


class CgroupManager:
    """Control groups of one machine. Its state is that of the kernel."""

    def __init__(
        self,
        hierarchy: CgroupHierarchy,
        driver: CgroupDriver = "cgroupfs",
        page_sizes: tuple[str, ...] = (),
        slices: SystemdSlices | None = None,
    ) -> None:
        self._hierarchy = hierarchy
        self._driver = driver
        self._page_sizes = page_sizes
        self._slices = slices or SystemdSlices(hierarchy.version)

    @property
    def version(self) -> int:
        """Version of the control groups, 1 or 2."""
        return self._hierarchy.version

    @property
    def page_sizes(self) -> tuple[str, ...]:
        """Sizes of huge pages, such as 2MB."""
        return self._page_sizes

    def path(self, name: CgroupName) -> str:
        """Return the path of a group in the driver's form."""
        return format_path(name, self._driver)

    def parse(self, path: str) -> CgroupName:
        """Return the name of the group at a path in the driver's form."""
        return parse_driver_path(path, self._driver)

    def check_driver(self) -> None:
        """Raise `CgroupError` if the driver cannot work on this machine."""
        if self._driver == "systemd":
            self._slices.check()

    def exists(self, name: CgroupName) -> bool:
        """Return True if a group exists in all hierarchies."""
        return not self._hierarchy.missing(self.path(name))

    def validate(self, name: CgroupName) -> None:
        """Raise `CgroupError` if a group does not exist in all hierarchies."""
        if missing := self._hierarchy.missing(self.path(name)):
            what = "paths" if self.version == 1 else "controllers"
            raise CgroupError(f'cgroup ["{" ".join(name)}"] has some missing {what}: {", ".join(missing)}')

    async def create(self, name: CgroupName, config: ResourceConfig) -> None:
        """Create a group with its limits. Raises `CgroupError`."""
        if self._driver == "systemd":
            unit, parent = self._unit_and_parent(name)
            await self._slices.start(unit, parent, config)
        try:
            self._hierarchy.create(self.path(name))
        except OSError as error:
            raise CgroupError(f"failed to create {error.filename}: {error.strerror}") from None
        self._write(name, config)

    async def update(self, name: CgroupName, config: ResourceConfig) -> None:
        """Change the limits of a group. Raises `CgroupError`."""
        if self._driver == "systemd":
            await self._slices.set_limits(self._unit_and_parent(name)[0], config)
        self._write(name, config)

    async def destroy(self, name: CgroupName) -> None:
        """Remove a group and all below it. Raises `CgroupError` if a process is left in one."""
        if self._driver == "systemd":
            await self._slices.stop(self._unit_and_parent(name)[0])
        try:
            self._hierarchy.remove(self.path(name))
        except OSError as error:
            message = f"unable to destroy cgroup paths for cgroup {list(name)}: {error.strerror}: {error.filename}"
            raise CgroupError(message) from None

    async def reduce_cpu_limits(self, name: CgroupName) -> None:
        """Reduce the CPU shares of a group to the least."""
        await self.update(name, ResourceConfig(cpu_shares=MIN_SHARES))

    def read(self, name: CgroupName) -> ResourceConfig:
        """Return the CPU and memory limits of a group. Raises `CgroupError`."""
        group = self.path(name)
        try:
            return replace(self._hierarchy.read_cpu(group), memory=self._hierarchy.read_memory_limit(group))
        except (OSError, ValueError) as error:
            raise CgroupError(f"failed to read the limits of cgroup {group}: {error}") from None

    def memory_usage(self, name: CgroupName) -> int:
        """Return the memory that a group uses. Raises `CgroupError`."""
        try:
            return self._hierarchy.read_memory_usage(self.path(name))
        except (OSError, ValueError) as error:
            raise CgroupError(f"failed to read the usage of cgroup {self.path(name)}: {error}") from None

    def processes(self, name: CgroupName) -> set[int]:
        """Return the processes in a group and the groups below it."""
        return self._hierarchy.processes(self.path(name))

    def children(self, name: CgroupName) -> list[CgroupName]:
        """Return the groups directly below a group."""
        base = self.path(name).rstrip("/")
        if self._driver == "cgroupfs":
            return [CgroupName((*name, part)) for part in self._hierarchy.children(base or "/")]
        return [self.parse(f"{base}/{part}") for part in self._hierarchy.children(base or "/")]

    def _write(self, name: CgroupName, config: ResourceConfig) -> None:
        self._hierarchy.write(self.path(name), config, self._page_sizes)

    def _unit_and_parent(self, name: CgroupName) -> tuple[str, str]:
        """Return the name of a group's slice and of the slice above it."""
        parts = self.path(name).strip("/").split("/")
        return parts[-1], parts[-2] if len(parts) > 1 else _ROOT_SLICE
