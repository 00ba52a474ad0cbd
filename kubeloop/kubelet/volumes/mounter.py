"""Lets pods begin when their volumes can be had, and tells why they can't.

attached? ── waited for in silence ─┐
claimed?  ── told every ten seconds ─┼─▶ all of it: the pod begins, and nothing is asked again
filled?   ── told with back-off ─────┘
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

# A volume that can't be filled is tried again after so long, then after twice as long, and so on.
FIRST_RETRY, LONGEST_RETRY = 0.5, 122.0
# What is wrong with claims is looked at with the pod itself.
CLAIMS_RETRY = 10.0
_CLAIMS = ""  # among retries


class Mounting:
    """What the pods of an agent wait for."""

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
        """Remember what is missing of a pod's volumes, or that nothing is."""
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
        """The volumes that are not attached. Before a pod begins the server is asked: the cached Node may be old."""
        missing = self._attachments.missing(pod, node)
        if missing or not (needed := self._attachments.needed(pod, node)):
            return missing
        try:
            return self._attachments.missing(pod, await self._client.get(Node, node.metadata.name))
        except NotFound:
            return needed


def _may_lack(volume: Volume) -> bool:
    """Whether a volume may not be there: most pods have none of that kind."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or shows_something(volume)


def _next_retry(last: Retry | None, now: datetime) -> Retry:
    delay = FIRST_RETRY if last is None else min(2 * last.delay, LONGEST_RETRY)
    return Retry(delay, now + timedelta(seconds=delay))
