# SPDX-License-Identifier: Apache-2.0
"""Collects the statistics of a real node when they are needed, at most once in ten seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.scalars.times import format_time
from kubeloop.clock import Clock
from kubeloop.grpc.streams import UNIMPLEMENTED, RpcError
from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, POD_UID
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.messages.sandbox import PodSandbox, PodSandboxState
from kubeloop.kubelet.cri.messages.stats import ContainerStats, ImageFsInfoResponse, PodSandboxStats
from kubeloop.kubelet.cri.stats.cgroup_stats import CgroupReader
from kubeloop.kubelet.cri.stats.conversion import PodParts, cpu_stats, pod_summary, runtime_stats
from kubeloop.kubelet.cri.stats.disk_usage import PodDiskUsage, measure_pods
from kubeloop.kubelet.cri.stats.machine_stats import MachineReader, fs_stats
from kubeloop.kubelet.cri.stats.summary import (
    ContainerSummary,
    CPUStats,
    NodeStatsSummary,
    PodSummary,
    ProcessStats,
    StatsSummary,
)
from kubeloop.kubelet.runtime import ContainerUsage

MAX_AGE_SECONDS = 10.0
_DISK_USAGE_SECONDS = 60.0  # folders are searched this often, as upstream's volumeStatsAggPeriod
_NANO = 1_000_000_000


class RuntimeStatsService(Protocol):
    """Statistics calls of `kubeloop.kubelet.cri.services.RuntimeService`."""

    async def list_container_stats(self) -> tuple[ContainerStats, ...]:
        """Return the statistics of all running containers."""

    async def list_pod_sandbox_stats(self) -> tuple[PodSandboxStats, ...]:
        """Return the statistics of all sandboxes; unimplemented by older runtimes."""

    async def pod_sandbox_stats(self, id: str) -> PodSandboxStats | None:
        """Return the statistics of a sandbox."""

    async def list_pod_sandboxes(self, labels: Mapping[str, str]) -> tuple[PodSandbox, ...]:
        """Return the sandboxes with these labels."""


class ImageFsService(Protocol):
    """Statistics call of `kubeloop.kubelet.cri.services.ImageService`."""

    async def image_fs_info(self) -> ImageFsInfoResponse:
        """Return the usage of the file systems of images and containers."""


@dataclass(frozen=True, slots=True)
class StatsSources:
    """Sources of the statistics."""

    runtime: RuntimeStatsService
    images: ImageFsService
    cgroups: CgroupReader = field(default_factory=CgroupReader)
    machine: MachineReader = field(default_factory=MachineReader)


class StatsNode(NamedTuple):
    """Facts about the node."""

    name: str
    paths: NodePaths
    group_of: Callable[[Pod], str]  # control group of a pod
    memory_capacity: int  # in bytes
    pods: Callable[[], list[Pod]]


class CollectedStats(NamedTuple):
    """Statistics, and the time of their collection."""

    summary: StatsSummary
    at: datetime
    groups: Mapping[tuple[str, str], str]  # control groups by UID of the pod and name of the container, empty for a pod

    def group_of(self, pod: PodSummary, container: str = "") -> str:
        """Return the control group of a pod or of one of its containers."""
        return self.groups.get((pod.pod_ref.uid, container), "")


class CpuRates:
    """CPU usage as a rate, from the difference of two times used, for runtimes and groups that give none."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}  # by owner: time in nanoseconds, CPU time
        self._rates: dict[str, int] = {}

    def update(self, owner: str, at: int, used: int) -> int | None:
        """Return the usage of an owner in nanocores; None for the first sample."""
        before = self._last.get(owner)
        if before is None or used < before[1]:
            self._rates.pop(owner, None)
        elif at > before[0]:
            self._rates[owner] = (used - before[1]) * _NANO // (at - before[0])
        self._last[owner] = at, used
        return self._rates.get(owner)

    def keep(self, owners: set[str]) -> None:
        """Forget all other owners."""
        self._last = {owner: sample for owner, sample in self._last.items() if owner in owners}
        self._rates = {owner: rate for owner, rate in self._rates.items() if owner in owners}


class StatsCollector:
    """Statistics of one node; `latest` is what was collected last."""

    def __init__(self, node: StatsNode, sources: StatsSources, clock: Clock) -> None:
        self._node = node
        self._sources = sources
        self._clock = clock
        self._rates = CpuRates()
        self._has_sandbox_stats = True
        self._disks: Mapping[str, PodDiskUsage] = {}
        self._disks_at: float | None = None
        self._lock = asyncio.Lock()
        self._collected_at: float | None = None
        self.latest: CollectedStats | None = None

    async def refresh(self, max_age: float = MAX_AGE_SECONDS) -> CollectedStats:
        """Return statistics that are not older than so many seconds. Raises `RpcError`."""
        async with self._lock:
            now = self._clock.monotonic()
            if self.latest is None or self._collected_at is None or now - self._collected_at >= max_age:
                self.latest = await self._collect()
                self._collected_at = now
            return self.latest

    async def _collect(self) -> CollectedStats:
        """Read all sources."""
        pods = self._node.pods()
        await self._measure_disks(pods)
        sources = self._sources
        containers = await sources.runtime.list_container_stats()
        sandboxes = {_uid_of(one): one for one in await self._sandbox_stats()}
        image_fs = await sources.images.image_fs_info()
        now = self._clock.now()
        time, at = format_time(now), int(now.timestamp() * _NANO)
        by_pod = self._by_pod(containers)
        summaries = tuple(
            self._pod(pod, PodParts(by_pod.get(uid, {}), sandboxes.get(uid), self._disks.get(uid)), at)
            for pod in pods
            if (uid := pod.metadata.uid) in by_pod or uid in sandboxes
        )
        groups = {(pod.metadata.uid, ""): self._node.group_of(pod) for pod in pods}
        self._rates.keep(
            {"/", *groups.values(), *(one.attributes.id for one in containers if one.attributes is not None)}
        )
        node = self._node_summary(time, at)
        node = msgspec.structs.replace(node, runtime=runtime_stats(image_fs, time))
        for uid, named in by_pod.items():
            groups |= {
                (uid, name): f"{groups.get((uid, ''), '')}/{one.attributes.id}"
                for name, (one, _) in named.items()
                if one.attributes is not None
            }
        return CollectedStats(StatsSummary(node=node, pods=summaries), now, groups)

    def usage_of(self, uid: str) -> dict[str, ContainerUsage]:
        """Return the usage of a pod's containers, by name, as collected last."""
        pods = self.latest.summary.pods if self.latest is not None else ()
        found = next((one for one in pods if one.pod_ref.uid == uid), None)
        return {one.name: _usage(one) for one in found.containers} if found is not None else {}

    def volume_usage_of(self, uid: str) -> dict[str, int]:
        """Return the bytes of a pod's emptyDir volumes on the node's disk, by name, as measured last."""
        found = self._disks.get(uid)
        return {name: one.bytes for name, one in found.volumes.items()} if found is not None else {}

    async def _measure_disks(self, pods: list[Pod]) -> None:
        now = self._clock.monotonic()
        if self._disks_at is None or now - self._disks_at >= _DISK_USAGE_SECONDS:
            self._disks = await asyncio.to_thread(measure_pods, pods, self._node.paths)
            self._disks_at = now

    async def _sandbox_stats(self) -> tuple[PodSandboxStats, ...]:
        if not self._has_sandbox_stats:
            return ()
        try:
            return await self._sources.runtime.list_pod_sandbox_stats()
        except RpcError as error:
            self._has_sandbox_stats = error.code != UNIMPLEMENTED
        return await self._each_sandbox_stats() if self._has_sandbox_stats else ()

    async def _each_sandbox_stats(self) -> tuple[PodSandboxStats, ...]:
        """Return the statistics of the ready sandboxes one by one: containerd 1.6 lists none if one is not ready."""
        found = []
        for one in await self._sources.runtime.list_pod_sandboxes({}):
            if one.state == PodSandboxState.READY:
                with suppress(RpcError):  # it may have ended since
                    found.append(await self._sources.runtime.pod_sandbox_stats(one.id))
        return tuple(one for one in found if one is not None)

    def _by_pod(self, found: tuple[ContainerStats, ...]) -> dict[str, dict[str, tuple[ContainerStats, CPUStats]]]:
        """Return the containers with their CPU usage, by the UID of their pod and by name."""
        pods: dict[str, dict[str, tuple[ContainerStats, CPUStats]]] = {}
        for one in found:
            about, cpu = one.attributes, one.cpu
            if about is None or cpu is None or cpu.usage_core_nano_seconds is None or POD_UID not in about.labels:
                continue
            rate = self._rates.update(about.id, cpu.timestamp, cpu.usage_core_nano_seconds.value)
            pods.setdefault(about.labels[POD_UID], {})[about.labels.get(CONTAINER_NAME, "")] = (
                one,
                cpu_stats(cpu, rate),
            )
        return pods

    def _pod(self, pod: Pod, parts: PodParts, at: int) -> PodSummary:
        """Return the usage of a pod: of its control group if that can be read."""
        group, cgroups = self._node.group_of(pod), self._sources.cgroups
        found = pod_summary(pod, parts, at)
        time = found.start_time if found.cpu is None else found.cpu.time
        used, memory = cgroups.cpu_nanoseconds(group), cgroups.memory(group, time)
        if used is None or memory is None:
            return found
        rate = self._rates.update(group, at, used)
        cpu = CPUStats(time=time, usage_nano_cores=rate, usage_core_nano_seconds=used)
        processes = cgroups.processes(group)
        counted = found.process_stats if processes is None else ProcessStats(process_count=processes)
        return msgspec.structs.replace(found, cpu=cpu, memory=memory, process_stats=counted)

    def _node_summary(self, time: str, at: int) -> NodeStatsSummary:
        cgroups, machine, node = self._sources.cgroups, self._sources.machine, self._node
        used, memory = cgroups.cpu_nanoseconds("/"), cgroups.memory("/", time)
        cpu = None
        if used is not None:
            rate = self._rates.update("/", at, used)
            cpu = CPUStats(time=time, usage_nano_cores=rate, usage_core_nano_seconds=used)
        if memory is not None:
            available = max(node.memory_capacity - (memory.working_set_bytes or 0), 0)
            memory = msgspec.structs.replace(memory, available_bytes=available)
        return NodeStatsSummary(
            node_name=node.name,
            start_time=machine.boot_time(),
            cpu=cpu,
            memory=memory,
            network=machine.network(time),
            fs=fs_stats(node.paths.root, time),
            rlimit=machine.rlimit(time),
            swap=machine.swap(time),
        )


def _uid_of(sandbox: PodSandboxStats) -> str:
    about = sandbox.attributes
    return about.labels.get(POD_UID, "") if about is not None else ""


def _usage(container: ContainerSummary) -> ContainerUsage:
    cpu, memory = container.cpu, container.memory
    written = sum(fs.used_bytes or 0 for fs in (container.rootfs, container.logs) if fs is not None)
    return ContainerUsage(
        (cpu.usage_nano_cores or 0) if cpu is not None else 0,
        (memory.working_set_bytes or 0) if memory is not None else 0,
        written,
    )
