# SPDX-License-Identifier: Apache-2.0
"""Measures the eviction signals of a real node every ten seconds, and frees disk space before pods are evicted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_active
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.gc.image_gc import ImageGCError
from kubeloop.kubelet.cri.stats.collector import CollectedStats
from kubeloop.kubelet.cri.stats.summary import FsStats, NodeStatsSummary
from kubeloop.kubelet.eviction.signals import DISK, SignalObservation, SignalTracker

MONITOR_SECONDS = 10.0

log = logging.getLogger(__name__)


class StatsSource(Protocol):
    """Part of `kubeloop.kubelet.cri.stats.collector.StatsCollector` that is needed here."""

    async def refresh(self, max_age: float = MONITOR_SECONDS) -> CollectedStats:
        """Return statistics that are not older than so many seconds."""


class DeadContainers(Protocol):
    """Part of `kubeloop.kubelet.cri.gc.container_gc.ContainerGC` that is needed here."""

    async def remove_dead_containers(self, is_running: Callable[[str], bool]) -> None:
        """Remove all dead containers of pods that have ended."""


class UnusedImages(Protocol):
    """Part of `kubeloop.kubelet.cri.gc.image_gc.ImageGCManager` that is needed here."""

    async def delete_unused(self) -> None:
        """Remove all unused images."""


class EvictionMonitor:
    """Feeds the signals of one node; evictions follow at the next heartbeat."""

    def __init__(
        self,
        stats: StatsSource,
        signals: SignalTracker,
        containers: DeadContainers,
        images: UnusedImages,
        pods: Callable[[], list[Pod]],
    ) -> None:
        self._stats = stats
        self._signals = signals
        self._containers = containers
        self._images = images
        self._pods = pods

    async def run(self) -> None:
        """Measure forever."""
        while True:
            try:
                await self.measure()
            except RpcError as error:
                log.warning("the usage of the node could not be measured: %s", error.format())
            await asyncio.sleep(MONITOR_SECONDS)

    async def measure(self) -> None:
        """Measure once; free disk space if its thresholds are met. Raises `RpcError`."""
        observations = dict(observe_signals((await self._stats.refresh(0.0)).summary.node))
        if DISK in self._signals.observe(observations):
            await self._free_disk_space()
            observations = dict(observe_signals((await self._stats.refresh(0.0)).summary.node))
        self._signals.update(observations)

    async def _free_disk_space(self) -> None:
        running = {pod.metadata.uid for pod in self._pods() if is_active(pod)}
        try:
            await self._containers.remove_dead_containers(running.__contains__)
            await self._images.delete_unused()
        except (ImageGCError, RpcError) as error:
            log.warning("disk space could not be freed: %s", error)


def observe_signals(node: NodeStatsSummary) -> Iterator[tuple[str, SignalObservation]]:
    """Yield the signals that the statistics of a node give."""
    memory, rlimit = node.memory, node.rlimit
    if memory is not None and memory.available_bytes is not None and memory.working_set_bytes is not None:
        available = memory.available_bytes
        yield "memory.available", SignalObservation(available, available + memory.working_set_bytes)
    yield from _observe_fs("nodefs", node.fs)
    yield from _observe_fs("imagefs", node.runtime.image_fs if node.runtime is not None else None)
    if rlimit is not None and rlimit.maxpid is not None and rlimit.curproc is not None:
        yield "pid.available", SignalObservation(rlimit.maxpid - rlimit.curproc, rlimit.maxpid)


def _observe_fs(name: str, fs: FsStats | None) -> Iterator[tuple[str, SignalObservation]]:
    if fs is None:
        return
    if fs.available_bytes is not None and fs.capacity_bytes is not None:
        yield f"{name}.available", SignalObservation(fs.available_bytes, fs.capacity_bytes)
    if fs.inodes_free is not None and fs.inodes:  # some file systems have no fixed number
        yield f"{name}.inodesFree", SignalObservation(fs.inodes_free, fs.inodes)
