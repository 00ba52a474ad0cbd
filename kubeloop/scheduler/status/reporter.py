# SPDX-License-Identifier: Apache-2.0
"""Reports scheduling results of a pod: the PodScheduled condition, nominatedNodeName, and events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Pod, PodCondition, PodStatus
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.api.struct_patch import StructPatch
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.objects.keys import ObjectKey, key_of

SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
ERROR: Final = "SchedulerError"
_NOTE_LIMIT: Final = 1024
_MAX_CONCURRENT_WRITES: Final = 4  # low on purpose: status writes yield to clients that create pods

log = logging.getLogger(__name__)
CONDITIONS = "conditions"
NOMINATED = "nominatedNodeName"


class PodStatusPatch(StructPatch):
    """Patch of the condition, the nomination, or both."""

    part = "status"

    def __init__(self, uid: str, change: dict[str, Any]) -> None:
        self.uid = uid
        self._change = change

    @property
    def document(self) -> dict[str, Any]:
        """Body of the strategic merge patch."""
        return {"metadata": {"uid": self.uid}, "status": self._change}

    def apply_to(self, present: PodStatus) -> PodStatus | None:
        """Return the patched status; None if there are conditions already, which need a merge."""
        conditions, node = present.conditions, present.nominated_node_name
        if CONDITIONS in self._change:
            if conditions:
                return None
            conditions = tuple(codec.from_plain(one, PodCondition) for one in self._change[CONDITIONS])
        if NOMINATED in self._change:
            node = self._change[NOMINATED] or ""
        return msgspec.structs.replace(present, conditions=conditions, nominated_node_name=node)


class Reporter:
    """Writes pod statuses in the background, at most one per pod at a time, and only changes."""

    def __init__(
        self, client: Client, clock: Clock, recorders: Mapping[str, EventRecorder], spawn: Callable[[Any], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorders = recorders
        self._spawn = spawn
        self._waiting: dict[ObjectKey, tuple[Pod, dict[str, Any]]] = {}
        self._busy: set[ObjectKey] = set()
        self._turns = asyncio.Semaphore(_MAX_CONCURRENT_WRITES)

    def record_bound(self, pod: Pod, node: str) -> None:
        """Emit the event Scheduled."""
        meta = pod.metadata
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {node}"
        self.record_event(pod, "Normal", "Scheduled", note, action="Binding")

    def report_failure(self, pod: Pod, reason: str, message: str, nominated: str | None) -> None:
        """Emit FailedScheduling and write the condition; also the nominated node, unless it is None."""
        self.record_event(pod, "Warning", "FailedScheduling", _note(message), action="Scheduling")
        change = status_patch_fields(pod, reason, message, nominated, format_time(self._clock.now()))
        if change:
            self._write(pod, change)

    def nominate(self, pod: Pod, node: str) -> None:
        """Write the nominated node of a pod."""
        if pod.status.nominated_node_name != node or key_of(pod) in self._busy:  # a pending write may change it
            self._write(pod, {NOMINATED: node or None})

    def record_event(self, pod: Pod, type: str, reason: str, note: str, *, action: str, related: Any = None) -> None:
        """Emit an event by the recorder of the pod's scheduler name."""
        recorder = self._recorders.get(pod.spec.scheduler_name) or next(iter(self._recorders.values()))
        recorder.event(pod, type, reason, note, action=action, related=related)

    def _write(self, pod: Pod, change: dict[str, Any]) -> None:
        key = key_of(pod)
        before = self._waiting.get(key)
        if before is not None and before[0].metadata.uid == pod.metadata.uid:
            change = {**before[1], **change}
        self._waiting[key] = (pod, change)
        if key not in self._busy:
            self._busy.add(key)
            self._spawn(self._write_all(key))

    async def _write_all(self, key: ObjectKey) -> None:
        try:
            async with self._turns:
                while (found := self._waiting.pop(key, None)) is not None:
                    await self._patch(key, *found)
        finally:
            self._busy.discard(key)

    async def _patch(self, key: ObjectKey, pod: Pod, change: dict[str, Any]) -> None:
        told = PodStatusPatch(pod.metadata.uid, change)
        try:
            await self._client.patch("pods", key.name, told, key.namespace, type=STRATEGIC_PATCH, subresource="status")
        except NotFound:
            log.debug("%s no longer exists, its status is not written", key)
        except (ApiError, ClientError, TimeoutError) as error:
            log.warning("failed to write the status of %s: %s", key, error)


def status_patch_fields(pod: Pod, reason: str, message: str, nominated: str | None, now: str) -> dict[str, Any]:
    """Return the status fields that must be written; empty if the status is up to date."""
    change: dict[str, Any] = {}
    generation = pod.metadata.generation or 0
    old = find_condition(pod.status.conditions, SCHEDULED)
    said = old is not None and (old.status, old.reason, old.message) == ("False", reason, message)
    if not said or old is None or (old.observed_generation or 0) != generation:
        condition: dict[str, Any] = {
            "type": SCHEDULED, "status": "False", "reason": reason, "message": message, "lastProbeTime": None,
        }  # fmt: skip
        if generation:
            condition["observedGeneration"] = generation
        if old is None or old.status != "False":
            condition["lastTransitionTime"] = now
        change[CONDITIONS] = [condition]
    if nominated is not None and pod.status.nominated_node_name != nominated:
        change[NOMINATED] = nominated or None
    return change


def _note(message: str) -> str:
    return message if len(message) <= _NOTE_LIMIT else message[: _NOTE_LIMIT - 4] + " ..."
