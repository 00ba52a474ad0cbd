# SPDX-License-Identifier: Apache-2.0
"""Container manager: sets the control groups of the node up, and keeps those of its pods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.quota.amounts import Amounts, amounts_of
from kubeloop.api.scalars.quantity import Quantity
from kubeloop.kubelet.cm import node_allocatable as allocatable
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.cm.cgroups.manager import CgroupManager
from kubeloop.kubelet.cm.cgroups.names import KUBEPODS, CgroupDriver, CgroupName, child, parse_path
from kubeloop.kubelet.cm.cgroups.pods import PodContainerManager
from kubeloop.kubelet.cm.cgroups.qos import QOSContainerManager, QosPolicy
from kubeloop.kubelet.cm.cgroups.resource_config import PIDS, PodCgroupPolicy, ResourceConfig, resource_config_for_list

_RETRY_SECONDS = 60.0
_ENFORCED, _FAILED = "NodeAllocatableEnforced", "FailedNodeAllocatableEnforcement"
_PID_FILES = (Path("/proc/sys/kernel/pid_max"), Path("/proc/sys/kernel/threads-max"))

log = logging.getLogger(__name__)

RecordNodeEvent = Callable[[str, str, str], None]  # type, reason, message


@dataclass(frozen=True, slots=True)
class ContainerManagerConfig:
    """Settings of the control groups of a node."""

    cgroup_root: str = "/"
    cgroup_driver: CgroupDriver = "cgroupfs"
    node_allocatable: allocatable.NodeAllocatableConfig = field(default_factory=allocatable.NodeAllocatableConfig)
    pods: PodCgroupPolicy = field(default_factory=PodCgroupPolicy)
    qos: QosPolicy = field(default_factory=QosPolicy)


class ContainerManager:
    """Control groups of one node: all pods below `kubepods`, by QoS class."""

    def __init__(
        self,
        cgroups: CgroupManager,
        config: ContainerManagerConfig,
        capacity: Amounts,
        active_pods: Callable[[], Iterable[Pod]],
        record: RecordNodeEvent,
    ) -> None:
        self._cgroups = cgroups
        self._config = config
        self._capacity = capacity
        self._record = record
        self._base = parse_path(config.cgroup_root)
        self._root = child(self._base, KUBEPODS)
        self.pods = PodContainerManager(cgroups, self._root, config.pods)
        self._qos = QOSContainerManager(cgroups, self._root, config.qos, active_pods, self._allocatable_memory)

    async def start(self) -> None:
        """Create the groups of the node. Raises `CgroupError`, or `ValueError` for impossible reservations."""
        config = self._config.node_allocatable
        allocatable.validate_node_allocatable(config, self._capacity)
        self._cgroups.check_driver()
        if not self._cgroups.exists(self._base):
            log.info("control group %s does not exist: it is created", self._config.cgroup_root)
            await self._cgroups.create(self._base, ResourceConfig())
        if not self._cgroups.exists(self._root):
            await self._cgroups.create(self._root, self._limits())
        for key, group, reserved in _reserved_groups(config):
            await self._enforce_reserved(key, group, reserved)
        await self._qos.start()

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the work that keeps the groups current."""
        return (self._enforce(), self._qos.run())

    async def ensure_pod(self, pod: Pod, *, has_exclusive_cpus: bool = False) -> None:
        """Create the group of a pod unless it exists. Raises `CgroupError`."""
        if await self.pods.ensure_exists(pod, has_exclusive_cpus=has_exclusive_cpus):
            await self.update_qos()

    async def update_qos(self) -> None:
        """Adapt the groups of the QoS classes to the present pods; a failure is tried again within a minute."""
        try:
            await self._qos.update()
        except CgroupError as error:
            log.warning("failed to update QoS cgroups: %s", error)

    async def _enforce(self) -> None:
        """Set the limits of all pods together; as long as they use more, this is tried again."""
        while True:
            try:
                await self._cgroups.update(self._root, self._limits())
            except CgroupError as error:
                message = f"Failed to update Node Allocatable Limits {list(self._root)}: {error}"
                self._record("Warning", _FAILED, message)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._record("Normal", _ENFORCED, "Updated Node Allocatable limit across pods")
            return

    async def _enforce_reserved(self, key: str, group: str, reserved: Amounts) -> None:
        name = self._cgroups.parse(group)
        what = " ".join(word.capitalize() for word in key.split("-"))
        try:
            self._cgroups.validate(name)
            limits = resource_config_for_list(reserved, compressible_only=key.endswith("compressible"))
            await self._cgroups.update(name, limits)
        except CgroupError as error:
            message = f'Failed to enforce {what} Cgroup Limits on "{group}": {error}'
            self._record("Warning", _FAILED, message)
            raise CgroupError(message) from None
        about = key.removesuffix("-compressible").replace("-", " ")
        self._record("Normal", _ENFORCED, f"Updated limits on {about} cgroup {group}")

    def _limits(self) -> ResourceConfig:
        amounts = allocatable.enforced_allocatable(self._config.node_allocatable, self._capacity)
        return resource_config_for_list(amounts)

    def _allocatable_memory(self) -> int | None:
        found = allocatable.node_allocatable(self._config.node_allocatable, self._capacity).get("memory")
        return None if found is None else found.value()

    @property
    def root(self) -> CgroupName:
        """Group of all pods."""
        return self._root


def _reserved_groups(config: allocatable.NodeAllocatableConfig) -> Iterator[tuple[str, str, Amounts]]:
    """Yield key, group and reservation of the groups of the node itself that are to be limited."""
    system, kube = amounts_of(config.system_reserved), amounts_of(config.kube_reserved)
    for key, group, reserved in (
        (allocatable.SYSTEM_RESERVED, config.system_reserved_cgroup, system),
        (allocatable.KUBE_RESERVED, config.kube_reserved_cgroup, kube),
        (allocatable.SYSTEM_COMPRESSIBLE, config.system_reserved_cgroup, system),
        (allocatable.KUBE_COMPRESSIBLE, config.kube_reserved_cgroup, kube),
    ):
        if key in config.enforced:
            yield key, group, reserved


def read_process_limit(files: Iterable[Path] = _PID_FILES) -> Amounts:
    """Return the number of processes that the machine allows, as a resource; empty if it is not known."""
    limits = [int(one.read_text()) for one in files if one.exists()]
    return {PIDS: Quantity.of(min(limits))} if limits else {}
