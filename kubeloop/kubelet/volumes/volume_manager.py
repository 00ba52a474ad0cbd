# SPDX-License-Identifier: Apache-2.0
"""Volume manager: lets pods start when their volumes are available, and reports why they are not.

attached? ── waited for silently ──────────┐
claimed?  ── reported every ten seconds ───┼─▶ all true: the pod starts, and nothing is checked again
contents? ── reported with back-off ───────┘
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, Pod, Volume
from kubeloop.api.scalars.times import parse_time
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.sync.pod_state import PodState, RetryTime, UnmountedVolumes
from kubeloop.kubelet.volumes.attachments import VolumeAttachmentsView
from kubeloop.kubelet.volumes.claims import ClaimChecker, used_volumes
from kubeloop.kubelet.volumes.volume_metrics import VolumeMetrics
from kubeloop.kubelet.volumes.volume_sources import VolumeSourceChecker, has_checked_sources

# Initial and maximum delay in seconds between tries of volumes with missing contents.
INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 122.0
# Interval in seconds of checks of claims, as of pod syncs.
CLAIM_CHECK_SECONDS = 10.0
_CLAIMS = ""  # key of claims among the retries


class VolumeManager:
    """Checks the volumes of an agent's pods."""

    def __init__(
        self,
        client: Client,
        attachments: VolumeAttachmentsView,
        claims: ClaimChecker,
        sources: VolumeSourceChecker,
        events: PodEvents,
        clock: Clock,
        metrics: VolumeMetrics,
    ) -> None:
        self._metrics = metrics
        self._client = client
        self._attachments = attachments
        self._claims = claims
        self._sources = sources
        self._events = events
        self._clock = clock

    async def check_attach_and_mount(self, pod: Pod, node: Node, memory: PodState) -> PodState:
        """Return the pod's state with its missing volumes, or marked as mounted."""
        if (
            memory.volumes_mounted
            or pod.metadata.deletion_timestamp is not None
            or not any(map(_may_be_missing, pod.spec.volumes))
        ):
            return memory
        before = memory.unmounted_volumes.retries if memory.unmounted_volumes is not None else {}
        now, retries = self._clock.now(), dict[str, RetryTime]()
        for volume in pod.spec.volumes:
            if not has_checked_sources(volume):
                continue
            last = before.get(volume.name)
            if last is not None and now < last.at:
                retries[volume.name] = last
            elif (why := await self._source_error(pod, volume, memory)) and volume.name in used_volumes(pod):
                self._events.record_volume_setup_failed(pod, volume.name, why)
                retries[volume.name] = _next_retry(last, now)
        missing = await self._missing(pod, node)
        if complaints := self._claims.claim_errors(pod):
            last = before.get(_CLAIMS)
            if last is None or now >= last.at:
                unmounted = {*complaints, *missing, *retries} - {_CLAIMS}
                self._events.record_volumes_not_mounted(pod, sorted(unmounted), list(missing), complaints)
                last = RetryTime(CLAIM_CHECK_SECONDS, now + timedelta(seconds=CLAIM_CHECK_SECONDS))
            retries[_CLAIMS] = last
        if retries or missing:
            return msgspec.structs.replace(memory, unmounted_volumes=UnmountedVolumes(retries))
        return msgspec.structs.replace(memory, unmounted_volumes=None, volumes_mounted=True)

    async def _source_error(self, pod: Pod, volume: Volume, memory: PodState) -> str:
        """Return the error of a volume's sources, and observe this as a try to mount it."""
        began = self._clock.monotonic()
        error = await self._sources.source_error(pod, volume)
        self._metrics.observe_mount(volume, self._clock.monotonic() - began, failed=bool(error))
        if not error:
            elapsed = self._clock.now() - parse_time(memory.first_seen)
            self._metrics.observe_total(volume, max(elapsed.total_seconds(), 0.0))
        return error

    async def _missing(self, pod: Pod, node: Node) -> tuple[str, ...]:
        """Return the volumes that are not attached; reads the Node from the server before a pod starts.

        The cached Node may be outdated.
        """
        missing = self._attachments.unattached_volumes(pod, node)
        if missing or not (needed := self._attachments.attachable_volumes(pod, node)):
            return missing
        try:
            return self._attachments.unattached_volumes(pod, await self._client.get(Node, node.metadata.name))
        except NotFound:
            return needed


def _may_be_missing(volume: Volume) -> bool:
    """Return True if a volume may be missing; most pods have none of that kind."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or has_checked_sources(volume)


def _next_retry(last: RetryTime | None, now: datetime) -> RetryTime:
    delay = INITIAL_RETRY_SECONDS if last is None else min(2 * last.delay, MAX_RETRY_SECONDS)
    return RetryTime(delay, now + timedelta(seconds=delay))
