# SPDX-License-Identifier: Apache-2.0
"""Writes the condition PodGroupInitiallyScheduled of pod groups, in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kubeloop.api.codec import to_plain
from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.scheduler.framework.status import Status

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
_RESOURCE: Final = resource_of_class(PodGroup)

log = logging.getLogger(__name__)


class PodGroupConditions:
    """Writes conditions, at most one write per group at a time, and only changes."""

    def __init__(self, client: Client, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._client = client
        self._clock = clock
        self._spawn = spawn
        self._last: dict[str, Condition] = {}  # written or being written, by uid
        self._waiting: dict[str, tuple[PodGroup, Condition]] = {}
        self._busy: set[str] = set()

    def report(self, group: PodGroup, status: Status | None) -> None:
        """Write the result of a scheduling cycle; a group that was scheduled once stays so."""
        uid = group.metadata.uid
        before = self._last.get(uid) or find_condition(group.status.conditions, INITIALLY_SCHEDULED)
        wanted = _condition(group, status)
        if before is not None:
            if before.status == "True" and wanted.status != "True":
                return
            if _facts(before) == _facts(wanted):
                return
        same = before is not None and before.status == wanted.status
        since = before.last_transition_time if same and before is not None else format_time(self._clock.now())
        self._last[uid] = condition = _with_time(wanted, since)
        self._waiting[uid] = group, condition
        if uid not in self._busy:
            self._busy.add(uid)
            self._spawn(self._write_all(uid))

    def forget(self, group: PodGroup) -> None:
        """Drop what is remembered of a deleted group."""
        self._last.pop(group.metadata.uid, None)

    async def _write_all(self, uid: str) -> None:
        try:
            while (next_one := self._waiting.pop(uid, None)) is not None:
                await self._write(*next_one)
        finally:
            self._busy.discard(uid)

    async def _write(self, group: PodGroup, condition: Condition) -> None:
        meta = group.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [to_plain(condition)]}}
        try:
            await self._client.patch(
                _RESOURCE, meta.name, body, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
            )
        except NotFound:
            log.debug("pod group %s/%s no longer exists", meta.namespace, meta.name)
        except (ApiError, ClientError) as error:
            self._last.pop(meta.uid, None)  # the next cycle tries again
            log.warning("failed to update the status of pod group %s/%s: %s", meta.namespace, meta.name, error)


def _condition(group: PodGroup, status: Status | None) -> Condition:
    if status is None:
        state, reason, message = "True", "Scheduled", ""
    else:
        state, message = "False", status.message
        reason = "Unschedulable" if status.is_rejected else "SchedulerError"
    generation = group.metadata.generation
    return Condition(
        type=INITIALLY_SCHEDULED, status=state, reason=reason, message=message, observed_generation=generation
    )


def _facts(condition: Condition) -> tuple[Any, ...]:
    return condition.status, condition.reason, condition.message, condition.observed_generation


def _with_time(condition: Condition, since: Any) -> Condition:
    from msgspec.structs import replace

    return replace(condition, last_transition_time=since)
