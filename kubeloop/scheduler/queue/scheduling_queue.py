"""Scheduling queue with upstream's three parts: activeQ, backoffQ and unschedulable pods.

add ─▶ active ─ pop ─▶ (in flight) ─ rejected ─▶ unschedulable ─ helpful cluster event ─▶ backoff ─ time ─▶ active
        ▲                   └ error ─▶ backoff                                              │
        └──────────────────── active is empty ◀─────────────────────────────────────────────┘
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.clock import Clock
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.queue.cluster_event import ClusterEvent
from kubeloop.scheduler.queue.in_flight_events import InFlightEvents
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.queueing_hints import HintIndex, HintObserver, QueueingStrategy, QueueProfile

ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
GATED = "gated"
_WINDOW = 1.0  # seconds; pods whose backoff ends in the same window are ordered as in the active queue
_FAILED = "ScheduleAttemptFailure"

PreEnqueueCheck = Callable[[PodInfo], bool]
_Timed = list[tuple[float, Any, int, ObjectKey]]  # a heap: end of the backoff, order, tie breaker


@dataclass(frozen=True, slots=True)
class QueueTimeouts:
    """Backoff and timeout settings of the queue, in seconds."""

    first: float = 1.0
    longest: float = 10.0
    unschedulable: float = 300.0  # a pod is retried after this time without any event


@dataclass(frozen=True, slots=True)
class QueueCallbacks:
    """Callbacks for what happens in the queue."""

    wake: Callable[[], None]  # a pod may be ready
    came: Callable[[str, str], None] = lambda _, __: None  # a pod was added to a part, with the reason
    asked: HintObserver = lambda *_: None


class SchedulingQueue:
    """Queue of pods that wait for a node.

    Invariant: a pod is in exactly one part, or in flight, or unknown.
    """

    def __init__(
        self, profiles: Mapping[str, QueueProfile], clock: Clock, patience: QueueTimeouts, listeners: QueueCallbacks
    ) -> None:
        self._profiles = profiles
        self._clock = clock
        self._patience = patience
        self._wake, self._came = listeners.wake, listeners.came
        self._hints = HintIndex(profiles, clock, listeners.asked)
        self._pods: dict[ObjectKey, QueuedPodInfo] = {}
        self._active: list[tuple[Any, int, ObjectKey]] = []
        self._backoff: _Timed = []
        self._failed: _Timed = []  # backing off after an error: never popped early
        self._waiting: dict[str, dict[ObjectKey, QueuedPodInfo]] = {}  # unschedulable pods, by rejector plugin
        self._trying = InFlightEvents()
        self._ties = count()

    def __len__(self) -> int:
        return len(self._pods)

    # Metrics.

    def sizes(self) -> dict[str, int]:
        """Return the number of pods in each part."""
        sizes = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, GATED: 0}
        for one in self._pods.values():
            sizes[GATED if one.gate else one.place] += 1
        return sizes

    def refused(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of queued pods by the plugin that rejected them and the profile."""
        found: Counter[tuple[str, ...]] = Counter()
        for one in self._pods.values():
            found.update((plugin, one.info.pod.spec.scheduler_name) for plugin in one.rejectors)
        return {key: float(number) for key, number in found.items()}

    def in_flight(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of recorded in-flight events by label."""
        return self._trying.sizes()

    def get(self, key: ObjectKey) -> QueuedPodInfo | None:
        """Return a queued pod, or None."""
        return self._pods.get(key)

    # Adding pods.

    def add(self, info: PodInfo) -> None:
        """Add a new pod."""
        self.delete(info.key)
        self._activate(QueuedPodInfo(info, self._clock.monotonic()), "UnscheduledPodAdd")

    def update(self, old: Pod, info: PodInfo, changes: Iterable[ClusterEvent]) -> None:
        """Update a pod; an unschedulable pod is requeued if one of the changes may help it."""
        if info.uid in self._trying:
            for about in changes:
                self._trying.remember(about, old, info.pod)
            return
        queued = self._pods.get(info.key)
        if queued is None:
            self.add(info)
            return
        queued.info = info
        if queued.place != UNSCHEDULABLE:
            return
        for about in changes:
            if self._requeue(queued, about, old, info.pod):
                return

    def delete(self, key: ObjectKey) -> None:
        """Delete a pod from the queue."""
        queued = self._pods.pop(key, None)
        if queued is not None and queued.place == UNSCHEDULABLE:
            self._unfile(queued)

    # Popping pods.

    def pop(self) -> QueuedPodInfo | None:
        """Return the next pod to schedule, taking one from the backoff queue if the active queue is empty.

        The caller must call `done` or `put_back` afterwards.
        """
        self.flush()
        while (queued := self._pop_active() or self._pop_backing_off()) is not None:
            del self._pods[queued.key]
            queued.place = ""
            if queued.info.uid not in self._trying:  # else an attempt for the same pod is already running
                break
        else:
            return None
        queued.attempts += 1
        queued.urged = False
        queued.tried_at = self._clock.monotonic()
        self._trying.begin(queued)
        return queued

    def done(self, uid: str) -> None:
        """End the attempt of a pod that is assigned or deleted, or for which later events do not matter."""
        self._trying.end(uid)

    def put_back(self, queued: QueuedPodInfo, *, error: bool = False) -> None:
        """Return a pod after a failed attempt; events recorded during the attempt may requeue it.

        The pod was rejected by `queued.plugins`, or the attempt ended with an error.
        """
        urgency = QueueingStrategy.LATER if error or queued.urged else self._urgency_meanwhile(queued)
        self.done(queued.info.uid)
        if queued.key in self._pods:
            return
        queued.added_at, queued.backoff_until, queued.flushed = self._clock.monotonic(), None, False
        if error:
            queued.errors += 1
        else:
            queued.refused += 1
            queued.errors = 0
        self._place(queued, urgency, _FAILED)

    def _urgency_meanwhile(self, queued: QueuedPodInfo) -> QueueingStrategy:
        uid = queued.info.uid
        if uid not in self._trying:
            return QueueingStrategy.LATER  # rejected after in-flight events were released
        found = QueueingStrategy.NEVER
        for one in self._trying.since(uid):
            found = max(found, self._hints.urgency(queued, one.about, one.old, one.new))
            if found is QueueingStrategy.NOW or (found and not queued.pending):
                break
        return found

    # Cluster events.

    def move(self, about: ClusterEvent, old: Any, new: Any, check: PreEnqueueCheck | None = None) -> None:
        """Requeue the unschedulable pods that a cluster event may help."""
        if not self._waiting and not self._trying:
            return
        plugins = self._hints.interested(about)
        for plugin in (*sorted(plugins & self._waiting.keys()), ""):
            for queued in tuple(self._waiting.get(plugin, {}).values()):
                if queued.place == UNSCHEDULABLE and (check is None or check(queued.info)):
                    self._hear(queued, about, old, new)
        if plugins:
            self._trying.remember(about, old, new)

    def _hear(self, queued: QueuedPodInfo, about: ClusterEvent, old: Any, new: Any) -> None:
        if self._hints.reaches(queued, about):
            self._requeue(queued, about, old, new)

    def activate(self, keys: Iterable[ObjectKey]) -> None:
        """Move pods to the active queue; pods in flight are queued again after their backoff."""
        for key in keys:
            queued = self._pods.get(key)
            if queued is None:
                trying = self._trying.find(key)
                if trying is not None:
                    trying.urged = True
            elif queued.place != ACTIVE:
                checked = queued.place == BACKOFF
                self._leave(queued)
                self._activate(queued, "ForceActivate", checked=checked)

    def _requeue(self, queued: QueuedPodInfo, about: ClusterEvent, old: Any, new: Any) -> bool:
        """Requeue a pod if the event may help it; return True if it has left the unschedulable pods."""
        urgency = self._hints.urgency(queued, about, old, new)
        if urgency is QueueingStrategy.NEVER:
            return False
        self._leave(queued)
        self._place(queued, urgency, about.label)
        return queued.place != UNSCHEDULABLE

    # Timers.

    def next_deadline(self) -> float | None:
        """Return the time on the monotonic clock when `flush` has something to do, or None."""
        firsts = [heap[0][0] + _WINDOW for heap in (self._backoff, self._failed) if self._tidy(heap)]
        return min(firsts, default=None)

    def flush(self) -> None:
        """Move pods whose backoff has completed to the active queue."""
        now = self._clock.monotonic()
        for heap in (self._backoff, self._failed):
            while self._tidy(heap) and heap[0][0] + _WINDOW <= now:
                self._activate(self._pods[heapq.heappop(heap)[3]], "BackoffComplete", checked=True)

    def flush_unschedulable(self) -> None:
        """Requeue pods that have been unschedulable for longer than the limit."""
        now = self._clock.monotonic()
        before = now - self._patience.unschedulable
        old = {
            queued.key: queued
            for group in self._waiting.values()
            for queued in group.values()
            if max(queued.added_at, queued.flushed_at) < before
        }
        for queued in old.values():
            queued.flushed, queued.flushed_at = True, now
            self._leave(queued)
            self._place(queued, QueueingStrategy.LATER, "UnschedulableTimeout")

    @property
    def has_waiting(self) -> bool:
        """True if there are unschedulable pods."""
        return bool(self._waiting)

    # Parts of the queue.

    def _place(self, queued: QueuedPodInfo, urgency: QueueingStrategy, why: str) -> None:
        if urgency is QueueingStrategy.NEVER:
            self._file(queued, why)
        elif urgency is QueueingStrategy.NOW or self._backoff_end(queued) + _WINDOW <= self._clock.monotonic():
            self._activate(queued, why)
        else:
            self._back_off(queued, why)

    def _activate(self, queued: QueuedPodInfo, why: str, *, checked: bool = False) -> None:
        """Add a pod to the active queue; with `checked` the PreEnqueue plugins are not run again."""
        if not checked and self._is_gated(queued):
            self._file(queued, why)
            return
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        self._pods[queued.key] = queued
        queued.place = ACTIVE
        if queued.first_active_at is None:
            queued.first_active_at = self._clock.monotonic()
        self._came(ACTIVE, why)
        heapq.heappush(self._active, (rules.sort_key(queued), self._tie(queued), queued.key))
        self._wake()

    def _back_off(self, queued: QueuedPodInfo, why: str) -> None:
        if self._is_gated(queued):
            self._file(queued, why)
            return
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        self._pods[queued.key] = queued
        queued.place = BACKOFF
        self._came(BACKOFF, why)
        end = self._backoff_end(queued)
        heap = self._failed if queued.errors else self._backoff
        heapq.heappush(heap, (end, rules.sort_key(queued), self._tie(queued), queued.key))
        self._wake()

    def _file(self, queued: QueuedPodInfo, why: str) -> None:
        self._pods[queued.key] = queued
        queued.place = UNSCHEDULABLE
        if queued.gate:
            queued.flushed = False
        self._came(UNSCHEDULABLE, why)
        for plugin in _files_of(queued):
            self._waiting.setdefault(plugin, {})[queued.key] = queued

    def _unfile(self, queued: QueuedPodInfo) -> None:
        for plugin in _files_of(queued):
            group = self._waiting.get(plugin)
            if group is not None:
                group.pop(queued.key, None)
                if not group:
                    del self._waiting[plugin]

    def _leave(self, queued: QueuedPodInfo) -> None:
        if queued.place == UNSCHEDULABLE:
            self._unfile(queued)
        queued.place = ""
        self._pods.pop(queued.key, None)

    def _is_gated(self, queued: QueuedPodInfo) -> bool:
        """Run the PreEnqueue plugins, first the one that gated the pod last; return True if one gates it."""
        last, queued.gate = queued.gate, ""
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        for plugin in sorted(rules.gates(), key=lambda one: one.name != last):
            if plugin.pre_enqueue(queued.info) is not None:
                queued.gate = plugin.name
                queued.plugins |= {plugin.name}
                return True
        return False

    def _backoff_end(self, queued: QueuedPodInfo) -> float:
        times = queued.errors or queued.refused
        if not times or not self._patience.longest:
            return -math.inf
        if queued.backoff_until is None:
            seconds = min(self._patience.first * 2.0 ** min(times - 1, 60), self._patience.longest)
            queued.backoff_until = math.floor((queued.added_at + seconds) / _WINDOW) * _WINDOW
        return queued.backoff_until

    def _pop_active(self) -> QueuedPodInfo | None:
        while self._active:
            _, tie, key = heapq.heappop(self._active)
            if self._is_at(key, ACTIVE, tie):
                return self._pods[key]
        return None

    def _pop_backing_off(self) -> QueuedPodInfo | None:
        if not self._tidy(self._backoff):
            return None
        self._came(ACTIVE, "PopFromBackoffQ")
        return self._pods[heapq.heappop(self._backoff)[3]]

    def _tidy(self, heap: _Timed) -> bool:
        """Drop outdated entries from the front of a heap; return True if any entry is left."""
        while heap and not self._is_at(heap[0][3], BACKOFF, heap[0][2]):
            heapq.heappop(heap)
        return bool(heap)

    def _tie(self, queued: QueuedPodInfo) -> int:
        """Return a unique id for the pod's heap entry, by which outdated entries are recognized."""
        queued.tie = next(self._ties)
        return queued.tie

    def _is_at(self, key: ObjectKey, place: str, tie: int) -> bool:
        queued = self._pods.get(key)
        return queued is not None and queued.place == place and queued.tie == tie


def _files_of(queued: QueuedPodInfo) -> Iterable[str]:
    return sorted(queued.rejectors) or ("",)
