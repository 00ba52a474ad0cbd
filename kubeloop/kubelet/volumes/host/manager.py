# SPDX-License-Identifier: Apache-2.0
"""Volume manager of a real node: sets volumes up before a pod starts, and keeps their contents current."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.clock import Clock
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.sync.pod_state import PodState, RetryTime, UnmountedVolumes
from kubeloop.kubelet.volumes.host.mounter import VolumeMounter
from kubeloop.kubelet.volumes.host.payloads import PayloadError
from kubeloop.kubelet.volumes.volume_manager import INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS, VolumeManager

REFRESH_SECONDS = 60.0
_SET_UP = "set-up"  # key of the set-up among the retries

log = logging.getLogger(__name__)


class HostVolumeManager:
    """Lets `checks` decide whether claims and sources exist, then sets the volumes up."""

    def __init__(self, checks: VolumeManager, mounter: VolumeMounter, events: PodEvents, clock: Clock) -> None:
        self._checks = checks
        self._mounter = mounter
        self._events = events
        self._clock = clock

    async def check_attach_and_mount(self, pod: Pod, node: Node, memory: PodState) -> PodState:
        """Return the pod's state with its missing volumes, or marked as mounted."""
        if pod.metadata.deletion_timestamp is not None or memory.volumes_mounted:
            return memory
        before = memory.unmounted_volumes.retries.get(_SET_UP) if memory.unmounted_volumes is not None else None
        if before is not None and self._clock.now() < before.at:
            return memory
        memory = await self._checks.check_attach_and_mount(pod, node, memory)
        if memory.unmounted_volumes is not None and _SET_UP not in memory.unmounted_volumes.retries:
            return memory
        try:
            await self._mounter.set_up(pod, node.status.allocatable)
        except (PayloadError, ApiError, OSError) as error:
            self._events.record_volume_setup_failed(pod, getattr(error, "volume", ""), str(error))
            delay = INITIAL_RETRY_SECONDS if before is None else min(2 * before.delay, MAX_RETRY_SECONDS)
            retry = RetryTime(delay, self._clock.now() + timedelta(seconds=delay))
            return msgspec.structs.replace(
                memory, unmounted_volumes=UnmountedVolumes({_SET_UP: retry}), volumes_mounted=False
            )
        return msgspec.structs.replace(memory, unmounted_volumes=None, volumes_mounted=True)

    async def refresh(self, pods: Callable[[], Iterable[Pod]], allocatable: Callable[[], Mapping[str, str]]) -> None:
        """Update the contents of the volumes of running pods forever."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            for pod in pods():
                try:
                    await self._mounter.refresh(pod, allocatable())
                except (PayloadError, ApiError, OSError) as error:
                    log.info("volumes of pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
