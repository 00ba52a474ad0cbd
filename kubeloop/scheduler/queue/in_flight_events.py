# SPDX-License-Identifier: Apache-2.0
"""Pods in flight (popped, attempt not finished) and the cluster events since each was popped."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.queue.cluster_event import TARGET_POD, ClusterEvent
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo


class InFlightEvent(NamedTuple):
    """Recorded cluster event; `only` is the uid of the single pod it concerns, or empty."""

    sequence: int
    event: ClusterEvent
    old: Any
    new: Any
    pod_uid: str


class InFlightEvents:
    """Pods in flight and the events recorded for them.

    Invariant: an event is kept exactly as long as a pod is in flight that was popped before it.
    """

    def __init__(self) -> None:
        self._pods: dict[str, tuple[int, QueuedPodInfo]] = {}  # by uid, in the order of popping
        self._changes: deque[InFlightEvent] = deque()
        self._last = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add_pod(self, queued: QueuedPodInfo) -> None:
        """Add a pod that was popped."""
        self._pods[queued.info.uid] = self._last, queued

    def remove_pod(self, uid: str) -> None:
        """Remove a pod whose attempt is finished, and drop the events that only it could still have used."""
        if self._pods.pop(uid, None) is None:
            return
        seen = next(iter(self._pods.values()))[0] if self._pods else self._last
        while self._changes and self._changes[0].sequence <= seen:
            self._changes.popleft()

    def record_event(self, about: ClusterEvent, old: Any, new: Any) -> None:
        """Record an event if any pod is in flight."""
        if self._pods:
            self._last += 1
            only = new.metadata.uid if about.resource == TARGET_POD else ""
            self._changes.append(InFlightEvent(self._last, about, old, new, only))

    def events_since_pop(self, uid: str) -> Iterator[InFlightEvent]:
        """Yield the events since a pod was popped, except those that concern another pod only."""
        seen, _ = self._pods[uid]
        return (one for one in self._changes if one.sequence > seen and one.pod_uid in ("", uid))

    def find_pod(self, key: ObjectKey) -> QueuedPodInfo | None:
        """Return the pod in flight with this key, or None."""
        return next((one for _, one in self._pods.values() if one.key == key), None)

    def sizes(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of recorded events by label, and the number of pods in flight as `PodPopped`."""
        found = Counter((one.event.label,) for one in self._changes)
        found["PodPopped",] = len(self._pods)
        return {key: float(number) for key, number in found.items()}
