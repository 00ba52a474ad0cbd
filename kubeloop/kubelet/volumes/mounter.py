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
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.events.recorder import Telling
from kubeloop.kubelet.sync.pod_state import Memory, Retry, Unmounted
from kubeloop.kubelet.volumes.attachments import Attachments
from kubeloop.kubelet.volumes.claims import Claims, used_volumes
from kubeloop.kubelet.volumes.projected import VolumeSources, shows_something

# Initial and maximum delay in seconds between tries of volumes with missing contents.
FIRST_RETRY, LONGEST_RETRY = 0.5, 122.0
# Interval in seconds of checks of claims, as of pod syncs.
CLAIMS_RETRY = 10.0
_CLAIMS = ""  # key of claims among the retries


class Mounting:
    """Checks the volumes of an agent's pods."""

    def __init__(
        self,
        client: Client,
        attachments: Attachments,
        claims: Claims,
        sources: VolumeSources,
        telling: Telling,
        clock: Clock,
    ) -> None:
        self._client = client
        self._attachments = attachments
        self._claims = claims
        self._sources = sources
        self._telling = telling
        self._clock = clock

    async def look(self, pod: Pod, node: Node, memory: Memory) -> Memory:
        """Return the pod's state with its missing volumes, or marked as mounted."""
        if memory.mounted or pod.metadata.deletion_timestamp is not None or not any(map(_may_lack, pod.spec.volumes)):
            return memory
        before = memory.unmounted.retries if memory.unmounted is not None else {}
        now, retries = self._clock.now(), dict[str, Retry]()
        for volume in pod.spec.volumes:
            if not shows_something(volume):
                continue
            last = before.get(volume.name)
            if last is not None and now < last.at:
                retries[volume.name] = last
            elif (why := await self._sources.complaint(pod, volume)) and volume.name in used_volumes(pod):
                self._telling.not_filled(pod, volume.name, why)
                retries[volume.name] = _next_retry(last, now)
        missing = await self._missing(pod, node)
        if complaints := self._claims.complaints(pod):
            last = before.get(_CLAIMS)
            if last is None or now >= last.at:
                unmounted = {*complaints, *missing, *retries} - {_CLAIMS}
                self._telling.not_claimed(pod, sorted(unmounted), list(missing), complaints)
                last = Retry(CLAIMS_RETRY, now + timedelta(seconds=CLAIMS_RETRY))
            retries[_CLAIMS] = last
        if retries or missing:
            return msgspec.structs.replace(memory, unmounted=Unmounted(retries))
        return msgspec.structs.replace(memory, unmounted=None, mounted=True)

    async def _missing(self, pod: Pod, node: Node) -> tuple[str, ...]:
        """Return the volumes that are not attached; reads the Node from the server before a pod starts.

        The cached Node may be outdated.
        """
        missing = self._attachments.missing(pod, node)
        if missing or not (needed := self._attachments.needed(pod, node)):
            return missing
        try:
            return self._attachments.missing(pod, await self._client.get(Node, node.metadata.name))
        except NotFound:
            return needed


def _may_lack(volume: Volume) -> bool:
    """Return True if a volume may be missing; most pods have none of that kind."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or shows_something(volume)


def _next_retry(last: Retry | None, now: datetime) -> Retry:
    delay = FIRST_RETRY if last is None else min(2 * last.delay, LONGEST_RETRY)
    return Retry(delay, now + timedelta(seconds=delay))
