# SPDX-License-Identifier: Apache-2.0
"""Computes the last-change trigger time: the earliest change that led to a write of endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Pod, Service
from kubeloop.api.pods.pod import ready_condition
from kubeloop.runtime.objects.keys import ObjectKey

ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class _TriggerTimes(NamedTuple):
    service: str
    pods: dict[str, str]  # by name


class TriggerTimeTracker:
    """Trigger times of each Service and its pods as of the last sync."""

    def __init__(self) -> None:
        self._seen: dict[ObjectKey, _TriggerTimes] = {}

    def compute_trigger_time(self, key: ObjectKey, service: Service, pods: Iterable[Pod]) -> str:
        """Return the time of the earliest change since the last sync, or an empty string if it is unknown.

        Times are texts in UTC, so that they sort chronologically.
        """
        before = self._seen.get(key)
        made = service.metadata.creation_timestamp or ""
        moments = {pod.metadata.name: moment for pod in pods if (moment := _moment_of(pod))}
        self._seen[key] = _TriggerTimes(made, moments)
        if before is None:
            return made
        fresh = [moment for name, moment in moments.items() if moment > before.pods.get(name, "")]
        if made > before.service:
            fresh.append(made)
        return min(fresh, default="")

    def has_state(self, key: ObjectKey) -> bool:
        """Return True if the Service was synced before."""
        return key in self._seen

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted Service."""
        self._seen.pop(key, None)


def _moment_of(pod: Pod) -> str:
    ready = ready_condition(pod)
    return "" if ready is None else ready.last_transition_time or ""
