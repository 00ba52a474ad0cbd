# SPDX-License-Identifier: Apache-2.0
"""Preemption executor: deletes victims in the background; the preemptor is not tried until the last one goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.meta.conditions import is_true
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.handle import Handle

PREEMPTION_REASON = "PreemptionByScheduler"
_TARGET = "DisruptionTarget"

log = logging.getLogger(__name__)


class Preemptor(NamedTuple):
    """Pod or pod group for which victims are evicted."""

    uid: str
    kind: str  # as messages name it
    scheduler_name: str
    pod_keys: tuple[ObjectKey, ...]  # pods to activate if no event will
    obj: Any


class PreemptionExecutor:
    """Evictions under way, by preemptor, on behalf of a plugin."""

    def __init__(self, handle: Handle, plugin: str) -> None:
        self._handle = handle
        self._plugin = plugin
        # By uid of the preemptor: its last victim, once that is the only one left to delete; else None.
        self._last: dict[str, PodInfo | None] = {}

    def is_pod_running_preemption(self, uid: str) -> bool:
        """Return True if a pod must wait for its victims.

        Returns False once the last victim is seen terminating, as its deletion event wakes the pod.
        """
        if uid not in self._last:
            return False
        last = self._last[uid]
        if last is None:
            return True
        victim = self._handle.pods.get(*last.key)
        if victim is None or victim.metadata.uid != last.uid:
            return False
        return victim.metadata.deletion_timestamp is None

    def start_preemption(self, pod: PodInfo, victims: Sequence[PodInfo], node: str) -> None:
        """Start deleting the victims of a pod that are not terminating yet."""
        self.start(Preemptor(pod.uid, "pod", pod.pod.spec.scheduler_name, (pod.key,), pod.pod), victims, node)

    def start(self, preemptor: Preemptor, victims: Sequence[PodInfo], place: str) -> None:
        """Start deleting the victims of a preemptor that are not terminating yet."""
        left = [one for one in victims if one.pod.metadata.deletion_timestamp is None]
        if left:
            self._last[preemptor.uid] = None
            self._handle.spawn(self._end_all(preemptor, left, place))

    async def _end_all(self, pod: Preemptor, victims: Sequence[PodInfo], node: str) -> None:
        clock, result = self._handle.clock, "success"
        began = clock.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for victim in victims[:-1]:
                    group.create_task(self._end(pod, victim, node))
            self._last[pod.uid] = victims[-1]
            goes = await self._end(pod, victims[-1], node)
        except Exception as error:
            log.warning("preemption for %s failed: %s", " ".join(map(str, pod.pod_keys)), error)
            result, goes = "error", False
        finally:
            self._last.pop(pod.uid, None)
        self._handle.metrics.observe_eviction(result, clock.monotonic() - began)
        if not goes:  # no deletion event will wake it
            self._handle.activate(pod.pod_keys)

    async def _end(self, pod: Preemptor, victim: PodInfo, node: str) -> bool:
        """Evict a victim; return True if its end will cause an event.

        A victim that is not bound yet is only rejected in memory; that counts, too.
        """
        note = f"Preempted by {pod.kind} {pod.uid} on node {node}"
        if self._handle.waiting_pods.preempt(victim.uid, self._plugin):
            note += " (in kube-scheduler memory)."
        elif not await self._delete(victim, pod):
            return False
        self._handle.reporter.record_event(
            victim.pod, "Normal", "Preempted", note, action="Preempting", related=pod.obj
        )
        return True

    async def _delete(self, victim: PodInfo, pod: Preemptor) -> bool:
        """Mark a victim as DisruptionTarget and delete it; return False if it was gone already."""
        client, key, uid = self._handle.client, victim.key, victim.uid
        try:
            body = {"metadata": {"uid": uid}, "status": {"conditions": [self._disruption(victim.pod, pod)]}}
            await client.patch("pods", key.name, body, key.namespace, type=STRATEGIC_PATCH, subresource="status")
            await client.delete("pods", key.name, key.namespace, preconditions=Preconditions(uid=uid))
        except NotFound:
            log.debug("%s no longer exists", key)
            return False
        return True

    def _disruption(self, victim: Pod, pod: Preemptor) -> dict[str, Any]:
        condition: dict[str, Any] = {
            "type": _TARGET,
            "status": "True",
            "reason": PREEMPTION_REASON,
            "message": f"{pod.scheduler_name}: preempting to accommodate a higher priority {pod.kind}",
            "lastProbeTime": None,
        }
        if victim.metadata.generation:
            condition["observedGeneration"] = victim.metadata.generation
        if not is_true(victim.status.conditions, _TARGET):
            condition["lastTransitionTime"] = format_time(self._handle.clock.now())
        return condition


def is_preempted_by_scheduler(pod: Pod) -> bool:
    """Return True if a terminating pod was preempted by the scheduler."""
    if pod.metadata.deletion_timestamp is None:
        return False
    return any(
        one.type == _TARGET and one.status == "True" and one.reason == PREEMPTION_REASON
        for one in pod.status.conditions
    )
