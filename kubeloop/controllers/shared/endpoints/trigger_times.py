"""Since when endpoints should say what they say now: the moment of the earliest change that brought a write about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Pod, Service
from kubeloop.api.pods.pod import ready_condition
from kubeloop.runtime.objects.keys import ObjectKey

ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class _Seen(NamedTuple):
    service: str
    pods: dict[str, str]  # by name


class TriggerTimes:
    """What was seen of each service and its pods when it was last looked at."""

    def __init__(self) -> None:
        self._seen: dict[ObjectKey, _Seen] = {}

    def look(self, key: ObjectKey, service: Service, pods: Iterable[Pod]) -> str:
        """When the earliest of the changes since the last look happened; empty if that isn't known.

        Moments are texts in UTC, which are in the order of time.
        """
        before = self._seen.get(key)
        made = service.metadata.creation_timestamp or ""
        moments = {pod.metadata.name: moment for pod in pods if (moment := _moment_of(pod))}
        self._seen[key] = _Seen(made, moments)
        if before is None:
            return made
        fresh = [moment for name, moment in moments.items() if moment > before.pods.get(name, "")]
        if made > before.service:
            fresh.append(made)
        return min(fresh, default="")

    def knows(self, key: ObjectKey) -> bool:
        """Whether the service was looked at before."""
        return key in self._seen

    def forget(self, key: ObjectKey) -> None:
        self._seen.pop(key, None)


def _moment_of(pod: Pod) -> str:
    ready = ready_condition(pod)
    return "" if ready is None else ready.last_transition_time or ""
