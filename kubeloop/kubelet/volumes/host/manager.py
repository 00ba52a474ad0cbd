# SPDX-License-Identifier: Apache-2.0
"""Volume manager of a real node: sets volumes up before a pod starts, and keeps their contents current."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.clock import Clock
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.sync.pod_state import PodState, RetryTime, UnmountedVolumes
from kubeloop.kubelet.volumes.host.mounter import FindVolume, VolumeMounter
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.volume_manager import INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS, VolumeManager

REFRESH_SECONDS = 60.0
# Time after which the volumes that a pod waits for are reported.
MOUNT_TIMEOUT = timedelta(minutes=2, seconds=3)
_SET_UP = "set-up"  # key of the set-up among the retries

log = logging.getLogger(__name__)


class HostVolumeManager:
    """Lets `checks` decide whether claims and sources exist, then sets the volumes up."""

    def __init__(
        self, checks: VolumeManager, mounter: VolumeMounter, volume_of: FindVolume, events: PodEvents, clock: Clock
    ) -> None:
        self._checks = checks
        self._mounter = mounter
        self._volume_of = volume_of
        self._events = events
        self._clock = clock
        self._waiting_since: dict[str, datetime] = {}  # by pod UID

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
        if failures := await self._mounter.set_up(pod, node.status.allocatable, self._volume_of):
            self._record_failures(pod, failures)
            delay = INITIAL_RETRY_SECONDS if before is None else min(2 * before.delay, MAX_RETRY_SECONDS)
            retry = RetryTime(delay, self._clock.now() + timedelta(seconds=delay))
            return msgspec.structs.replace(
                memory, unmounted_volumes=UnmountedVolumes({_SET_UP: retry}), volumes_mounted=False
            )
        self._waiting_since.pop(pod.metadata.uid, None)
        return msgspec.structs.replace(memory, unmounted_volumes=None, volumes_mounted=True)

    def _record_failures(self, pod: Pod, failures: Sequence[PayloadError]) -> None:
        """Emit the failures, and after each two minutes of waiting the volumes that are missing."""
        for one in failures:
            self._events.record_volume_setup_failed(pod, one.volume, str(one), one.step)
        now = self._clock.now()
        since = self._waiting_since.setdefault(pod.metadata.uid, now)
        if now - since >= MOUNT_TIMEOUT:
            self._waiting_since[pod.metadata.uid] = now
            self._events.record_mount_timeout(pod, sorted(one.pod_volume for one in failures))

    async def refresh(self, pods: Callable[[], Iterable[Pod]], allocatable: Callable[[], Mapping[str, str]]) -> None:
        """Update the contents of the volumes of running pods forever."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            for pod in pods():
                try:
                    await self._mounter.refresh(pod, allocatable())
                except (PayloadError, ApiError, OSError) as error:
                    log.info("volumes of pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
