# SPDX-License-Identifier: Apache-2.0
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
PARTS = (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)
_WINDOW = 1.0  # seconds; pods whose backoff ends in the same window are ordered as in the active queue
FAILED = "ScheduleAttemptFailure"

PreEnqueueCheck = Callable[[PodInfo], bool]
_Timed = list[tuple[float, Any, int, ObjectKey]]  # a heap: end of the backoff, order, tie breaker


@dataclass(frozen=True, slots=True)
class QueueTimeouts:
    """Backoff and timeout settings of the queue, in seconds."""

    pod_initial_backoff: float = 1.0
    pod_max_backoff: float = 10.0
    pod_max_in_unschedulable: float = 300.0  # a pod is retried after this time without any event


@dataclass(frozen=True, slots=True)
class QueueCallbacks:
    """Callbacks for what happens in the queue."""

    wake: Callable[[], None]  # a pod may be ready
    # An entry was added to a part, with the reason.
    record_incoming: Callable[[QueuedPodInfo, str, str], None] = lambda *_: None
    record_hint: HintObserver = lambda *_: None


class SchedulingQueue:
    """Queue of pods that wait for a node.

    Invariant: a pod is in exactly one part, or in flight, or unknown.
    """

    def __init__(self, clock: Clock, patience: QueueTimeouts, listeners: QueueCallbacks) -> None:
        self._profiles: dict[str, QueueProfile] = {}
        self._clock = clock
        self._patience = patience
        self._wake, self._came = listeners.wake, listeners.record_incoming
        self._hints = HintIndex(self._profiles, clock, listeners.record_hint)
        self._pods: dict[ObjectKey, QueuedPodInfo] = {}
        self._active: list[tuple[Any, int, ObjectKey]] = []
        self._backoff: _Timed = []
        self._failed: _Timed = []  # backing off after an error, and pod groups: never popped early
        self._unschedulable_pods: dict[
            str, dict[ObjectKey, QueuedPodInfo]
        ] = {}  # unschedulable pods, by rejector plugin
        self._in_flight = InFlightEvents()
        self._ties = count()  # unique ids of heap entries, by which outdated entries are recognized

    def __len__(self) -> int:
        return len(self._pods)

    def add_profile(self, name: str, profile: QueueProfile) -> None:
        """Add a profile, whose pods may be queued from then on; its plugins may need the queue when they are made."""
        self._profiles[name] = profile

    # Metrics.

    def sizes(self) -> dict[str, int]:
        """Return the number of pods in each part."""
        sizes = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, GATED: 0}
        for one in self._pods.values():
            sizes[GATED if one.gating_plugin else one.queue_name] += len(one.pods)
        return sizes

    def entity_counts(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of entries by part and type."""
        found: Counter[tuple[str, ...]] = Counter({(part, "pod"): 0 for part in PARTS})
        for one in self._pods.values():
            found[GATED if one.gating_plugin else one.queue_name, one.entity_type] += 1
        return {key: float(number) for key, number in found.items()}

    def unschedulable_counts(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of queued pods by the plugin that rejected them and the profile."""
        found: Counter[tuple[str, ...]] = Counter()
        for entry in self._pods.values():
            for one in entry.pods:
                found.update((plugin, one.info.pod.spec.scheduler_name) for plugin in one.rejector_plugins)
        return {key: float(number) for key, number in found.items()}

    def in_flight_event_counts(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of recorded in-flight events by label."""
        return self._in_flight.sizes()

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
        if info.uid in self._in_flight:
            for about in changes:
                self._in_flight.record_event(about, old, info.pod)
            return
        queued = self._pods.get(info.key)
        if queued is None:
            self.add(info)
            return
        queued.update(info)
        if queued.queue_name != UNSCHEDULABLE:
            return
        for about in changes:
            if self._requeue(queued, about, old, info.pod):
                return

    def delete(self, key: ObjectKey) -> None:
        """Delete a pod from the queue."""
        queued = self._pods.pop(key, None)
        if queued is not None and queued.queue_name == UNSCHEDULABLE:
            self._remove_unschedulable(queued)

    # Popping pods.

    def pop(self) -> QueuedPodInfo | None:
        """Return the next pod to schedule, taking one from the backoff queue if the active queue is empty.

        The caller must call `done` or `put_back` afterwards.
        """
        self.flush_backoff_completed()
        while (queued := self._pop_active() or self._pop_backing_off()) is not None:
            del self._pods[queued.key]
            queued.leave_queue()
            if self._start_attempt(queued):
                return queued
        return None

    def _start_attempt(self, queued: QueuedPodInfo) -> bool:
        """Start an attempt; return False if one for the same pod is already running."""
        if queued.info.uid in self._in_flight:
            return False
        queued.start_attempt(self._clock.monotonic())
        self._in_flight.add_pod(queued)
        return True

    def done(self, uid: str) -> None:
        """End the attempt of a pod that is assigned or deleted, or for which later events do not matter."""
        self._in_flight.remove_pod(uid)

    def add_unschedulable_pod_if_not_present(self, queued: QueuedPodInfo, *, error: bool = False) -> None:
        """Return a pod after a failed attempt; events recorded during the attempt may requeue it.

        The pod was rejected by `queued.plugins`, or the attempt ended with an error.
        """
        urgency = (
            QueueingStrategy.AFTER_BACKOFF
            if error or queued.activate_requested
            else self._strategy_from_in_flight_events(queued)
        )
        self.done(queued.info.uid)
        if queued.key in self._pods:
            return
        queued.end_attempt(self._clock.monotonic(), error=error)
        self._place(queued, urgency, FAILED)

    def _strategy_from_in_flight_events(self, queued: QueuedPodInfo) -> QueueingStrategy:
        uid = queued.info.uid
        if uid not in self._in_flight:
            return QueueingStrategy.AFTER_BACKOFF  # rejected after in-flight events were released
        found = QueueingStrategy.SKIP
        for one in self._in_flight.events_since_pop(uid):
            found = max(found, self._hints.requeue_strategy(queued, one.event, one.old, one.new))
            if found is QueueingStrategy.IMMEDIATELY or (found and not queued.pending_plugins):
                break
        return found

    # Cluster events.

    def move_all_to_active_or_backoff(
        self, about: ClusterEvent, old: Any, new: Any, check: PreEnqueueCheck | None = None
    ) -> None:
        """Requeue the unschedulable pods that a cluster event may help."""
        if not self._unschedulable_pods and not self._in_flight:
            return
        plugins = self._hints.plugins_for_event(about)
        for plugin in (*sorted(plugins & self._unschedulable_pods.keys()), ""):
            for queued in tuple(self._unschedulable_pods.get(plugin, {}).values()):
                if queued.queue_name == UNSCHEDULABLE and (check is None or check(queued.info)):
                    self._handle_event(queued, about, old, new)
        if plugins:
            self._in_flight.record_event(about, old, new)

    def _handle_event(self, queued: QueuedPodInfo, about: ClusterEvent, old: Any, new: Any) -> None:
        if self._hints.can_wake(queued, about):
            self._requeue(queued, about, old, new)

    def activate(self, keys: Iterable[ObjectKey]) -> None:
        """Move pods to the active queue; pods in flight are queued again after their backoff."""
        for key in keys:
            queued = self._pods.get(key)
            if queued is None:
                trying = self._in_flight.find_pod(key)
                if trying is not None:
                    trying.request_activation()
            elif queued.queue_name != ACTIVE:
                checked = queued.queue_name == BACKOFF
                self._remove(queued)
                self._activate(queued, "ForceActivate", checked=checked)

    def _requeue(self, queued: QueuedPodInfo, about: ClusterEvent, old: Any, new: Any) -> bool:
        """Requeue a pod if the event may help it; return True if it has left the unschedulable pods."""
        urgency = self._requeue_strategy(queued, about, old, new)
        if urgency is QueueingStrategy.SKIP:
            return False
        self._remove(queued)
        self._place(queued, urgency, about.label)
        return queued.queue_name != UNSCHEDULABLE

    def _requeue_strategy(self, queued: QueuedPodInfo, about: ClusterEvent, old: Any, new: Any) -> QueueingStrategy:
        return self._hints.requeue_strategy(queued, about, old, new)

    # Timers.

    def next_deadline(self) -> float | None:
        """Return the time on the monotonic clock when `flush` has something to do, or None."""
        firsts = [heap[0][0] + _WINDOW for heap in (self._backoff, self._failed) if self._drop_stale_entries(heap)]
        return min(firsts, default=None)

    def flush_backoff_completed(self) -> None:
        """Move pods whose backoff has completed to the active queue."""
        now = self._clock.monotonic()
        for heap in (self._backoff, self._failed):
            while self._drop_stale_entries(heap) and heap[0][0] + _WINDOW <= now:
                self._activate(self._pods[heapq.heappop(heap)[3]], "BackoffComplete", checked=True)

    def flush_unschedulable_leftover(self) -> None:
        """Requeue pods that have been unschedulable for longer than the limit."""
        now = self._clock.monotonic()
        before = now - self._patience.pod_max_in_unschedulable
        old = {
            queued.key: queued
            for group in self._unschedulable_pods.values()
            for queued in group.values()
            if max(queued.timestamp, queued.flushed_at) < before
        }
        for queued in old.values():
            queued.set_flushed(now)
            self._remove(queued)
            self._place(queued, QueueingStrategy.AFTER_BACKOFF, "UnschedulableTimeout")

    @property
    def has_unschedulable_pods(self) -> bool:
        """True if there are unschedulable pods."""
        return bool(self._unschedulable_pods)

    # Parts of the queue.

    def _place(self, queued: QueuedPodInfo, urgency: QueueingStrategy, why: str) -> None:
        if urgency is QueueingStrategy.SKIP:
            self._add_unschedulable(queued, why)
        elif urgency is QueueingStrategy.IMMEDIATELY or self._backoff_end(queued) + _WINDOW <= self._clock.monotonic():
            self._activate(queued, why)
        else:
            self._back_off(queued, why)

    def _activate(self, queued: QueuedPodInfo, why: str, *, checked: bool = False) -> None:
        """Add a pod to the active queue; with `checked` the PreEnqueue plugins are not run again."""
        if not checked and self._is_gated(queued):
            self._add_unschedulable(queued, why)
            return
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        self._pods[queued.key] = queued
        tie = next(self._ties)
        queued.enter_queue(ACTIVE, tie)
        if queued.initial_attempt_timestamp is None:
            queued.set_admitted(self._clock.monotonic())
        self._came(queued, ACTIVE, why)
        heapq.heappush(self._active, (rules.sort_key(queued), tie, queued.key))
        self._wake()

    def _back_off(self, queued: QueuedPodInfo, why: str) -> None:
        if self._is_gated(queued):
            self._add_unschedulable(queued, why)
            return
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        self._pods[queued.key] = queued
        tie = next(self._ties)
        queued.enter_queue(BACKOFF, tie)
        self._came(queued, BACKOFF, why)
        end = self._backoff_end(queued)
        heap = self._failed if queued.consecutive_errors_count or queued.is_group else self._backoff
        heapq.heappush(heap, (end, rules.sort_key(queued), tie, queued.key))
        self._wake()

    def _add_unschedulable(self, queued: QueuedPodInfo, why: str) -> None:
        self._pods[queued.key] = queued
        queued.enter_queue(UNSCHEDULABLE)
        if queued.gating_plugin:
            queued.clear_flushed()
        self._came(queued, UNSCHEDULABLE, why)
        for plugin in _files_of(queued):
            self._unschedulable_pods.setdefault(plugin, {})[queued.key] = queued

    def _remove_unschedulable(self, queued: QueuedPodInfo) -> None:
        for plugin in _files_of(queued):
            group = self._unschedulable_pods.get(plugin)
            if group is not None:
                group.pop(queued.key, None)
                if not group:
                    del self._unschedulable_pods[plugin]

    def _remove(self, queued: QueuedPodInfo) -> None:
        if queued.queue_name == UNSCHEDULABLE:
            self._remove_unschedulable(queued)
        queued.leave_queue()
        self._pods.pop(queued.key, None)

    def _is_gated(self, queued: QueuedPodInfo) -> bool:
        """Run the PreEnqueue plugins, first the one that gated the pod last; return True if one gates it."""
        last = queued.gating_plugin
        queued.set_gate("")
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        for plugin in sorted(rules.pre_enqueue_plugins(), key=lambda one: one.name != last):
            if plugin.pre_enqueue(queued.info) is not None:
                queued.set_gate(plugin.name)
                return True
        return False

    def _backoff_end(self, queued: QueuedPodInfo) -> float:
        times = queued.consecutive_errors_count or queued.unschedulable_count
        if not times or not self._patience.pod_max_backoff:
            return -math.inf
        if queued.backoff_expiration is None:
            seconds = min(
                self._patience.pod_initial_backoff * 2.0 ** min(times - 1, 60), self._patience.pod_max_backoff
            )
            return queued.set_backoff_expiration(math.floor((queued.timestamp + seconds) / _WINDOW) * _WINDOW)
        return queued.backoff_expiration

    def _pop_active(self) -> QueuedPodInfo | None:
        while self._active:
            _, tie, key = heapq.heappop(self._active)
            if self._is_at(key, ACTIVE, tie):
                return self._pods[key]
        return None

    def _pop_backing_off(self) -> QueuedPodInfo | None:
        if not self._drop_stale_entries(self._backoff):
            return None
        queued = self._pods[heapq.heappop(self._backoff)[3]]
        self._came(queued, ACTIVE, "PopFromBackoffQ")
        return queued

    def _drop_stale_entries(self, heap: _Timed) -> bool:
        """Drop outdated entries from the front of a heap; return True if any entry is left."""
        while heap and not self._is_at(heap[0][3], BACKOFF, heap[0][2]):
            heapq.heappop(heap)
        return bool(heap)

    def _is_at(self, key: ObjectKey, place: str, tie: int) -> bool:
        queued = self._pods.get(key)
        return queued is not None and queued.queue_name == place and queued.heap_entry_id == tie


def _files_of(queued: QueuedPodInfo) -> Iterable[str]:
    return sorted(queued.rejector_plugins) or ("",)
