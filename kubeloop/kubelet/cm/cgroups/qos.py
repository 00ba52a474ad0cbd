# SPDX-License-Identifier: Apache-2.0
"""QoS container manager: the control groups of the QoS classes, whose limits follow the pods of the node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.quota.amounts import ZERO
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.strategy.pods.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class_of
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.cm.cgroups.manager import CgroupManager
from kubeloop.kubelet.cm.cgroups.names import CgroupName, child
from kubeloop.kubelet.cm.cgroups.resource_config import (
    MEMORY_LOW,
    MEMORY_MIN,
    MIN_SHARES,
    ResourceConfig,
    milli_cpu_to_shares,
    without_status,
)

UPDATE_SECONDS = 60.0
_UNBOUNDED = 1 << 62
_UNITS = {"GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QosPolicy:
    """Settings of the QoS classes."""

    memory_qos: bool = False  # the feature gate MemoryQoS, with version 2 only
    reserves_memory: bool = False  # `memoryReservationPolicy: TieredReservation`
    reserved_memory_percent: int | None = None  # `qosReserved`, of the requests of higher classes


def qos_group(root: CgroupName, qos: str) -> CgroupName:
    """Return the group of a QoS class: Guaranteed pods are directly below the root of all pods."""
    return root if qos == GUARANTEED else child(root, qos.lower())


def qos_configs(
    pods: Iterable[Pod], policy: QosPolicy, allocatable_memory: int | None = None
) -> dict[str, ResourceConfig]:
    """Return the limits of the group of each QoS class, for the active pods of the node."""
    cpu, memory = 0, {GUARANTEED: 0, BURSTABLE: 0, BEST_EFFORT: 0}
    for pod in pods:
        requests, qos = requests_of(without_status(pod)), qos_class_of(pod.spec)
        memory[qos] += requests.get("memory", ZERO).value()
        cpu += requests.get("cpu", ZERO).milli_value() if qos == BURSTABLE else 0
    configs = {
        GUARANTEED: ResourceConfig(),
        BURSTABLE: ResourceConfig(cpu_shares=milli_cpu_to_shares(cpu)),
        BEST_EFFORT: ResourceConfig(cpu_shares=MIN_SHARES),
    }
    if policy.memory_qos and policy.reserves_memory:
        hard, soft = memory[GUARANTEED], memory[BURSTABLE]
        above = {MEMORY_MIN: str(hard + soft), MEMORY_LOW: str(soft)}  # protection needs that of all groups above
        configs[GUARANTEED] = replace(configs[GUARANTEED], unified=above)
        configs[BURSTABLE] = replace(configs[BURSTABLE], unified={MEMORY_LOW: str(soft)})
    if policy.reserved_memory_percent is not None and allocatable_memory:
        burstable = allocatable_memory - memory[GUARANTEED] * policy.reserved_memory_percent // 100
        best_effort = burstable - memory[BURSTABLE] * policy.reserved_memory_percent // 100
        configs[BURSTABLE] = replace(configs[BURSTABLE], memory=burstable)
        configs[BEST_EFFORT] = replace(configs[BEST_EFFORT], memory=best_effort)
    return configs


class QOSContainerManager:
    """Groups of the QoS classes below the root of all pods."""

    def __init__(
        self,
        cgroups: CgroupManager,
        root: CgroupName,
        policy: QosPolicy,
        active_pods: Callable[[], Iterable[Pod]],
        allocatable_memory: Callable[[], int | None],
    ) -> None:
        self._cgroups = cgroups
        self._root = root
        self._policy = policy
        self._active_pods = active_pods
        self._allocatable_memory = allocatable_memory
        self._unbounded = {_page_bytes(size): _UNBOUNDED for size in cgroups.page_sizes}

    async def start(self) -> None:
        """Create the groups; values of earlier settings are reset. Raises `CgroupError`."""
        resets = self._cgroups.version == 2 and not (self._policy.memory_qos and self._policy.reserves_memory)
        for qos in (BURSTABLE, BEST_EFFORT):
            name = qos_group(self._root, qos)
            config = ResourceConfig(
                cpu_shares=MIN_SHARES if qos == BEST_EFFORT else None,
                huge_pages=self._unbounded,
                unified={MEMORY_LOW: "0"} if resets and qos == BURSTABLE else {},
            )
            if self._cgroups.exists(name):
                await self._cgroups.update(name, config)
            else:
                await self._cgroups.create(name, config)
        if resets:
            await self._cgroups.update(self._root, ResourceConfig(unified={MEMORY_MIN: "0", MEMORY_LOW: "0"}))

    async def update(self) -> None:
        """Write the limits that the present pods require. Raises `CgroupError`."""
        configs = qos_configs(self._active_pods(), self._policy, self._allocatable_memory())
        try:
            await self._write(configs)
        except CgroupError:
            if self._policy.reserved_memory_percent is None:
                raise
            await self._write({qos: self._above_usage(qos, config) for qos, config in configs.items()})

    async def run(self) -> None:
        """Update the limits every minute, forever."""
        while True:
            try:
                await self.update()
            except CgroupError as error:
                log.warning("failed to reserve QoS requests: %s", error)
            await asyncio.sleep(UPDATE_SECONDS)

    async def _write(self, configs: Mapping[str, ResourceConfig]) -> None:
        for qos, config in configs.items():
            await self._cgroups.update(qos_group(self._root, qos), replace(config, huge_pages=self._unbounded))

    def _above_usage(self, qos: str, config: ResourceConfig) -> ResourceConfig:
        """Return limits that are not below the present usage, which the kernel would refuse."""
        if config.memory is None:
            return config
        return replace(config, memory=max(config.memory, self._cgroups.memory_usage(qos_group(self._root, qos))))


def _page_bytes(size: str) -> int:
    return int(size[:-2]) * _UNITS[size[-2:]]
