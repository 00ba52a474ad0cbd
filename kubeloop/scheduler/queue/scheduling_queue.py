"""The pods that wait for a node, in three parts: ready to be tried, backing off, and waiting for a helpful change.

add ─▶ active ─ pop ─▶ (tried) ─ refused ─▶ unschedulable ─ a change that may help ─▶ backing off ─ time ─▶ active
         ▲                        └ failed ─▶ backing off                                │
         └──────────────────── nothing else to do ◀─────────────────────────────────────┘
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
from kubeloop.scheduler.queue.cluster_event import About
from kubeloop.scheduler.queue.in_flight_events import InFlight
from kubeloop.scheduler.queue.queued_pod_info import QueuedPod
from kubeloop.scheduler.queue.queueing_hints import Asked, Hints, Rules, Urgency

ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
GATED = "gated"
_WINDOW = 1.0  # seconds; pods whose backoff ends within the same one are ordered as in the active part
_FAILED = "ScheduleAttemptFailure"

Check = Callable[[PodInfo], bool]
_Timed = list[tuple[float, Any, int, ObjectKey]]  # a heap: end of the backoff, order, tie breaker


@dataclass(frozen=True, slots=True)
class Patience:
    """How long pods wait before they are tried again; in seconds."""

    first: float = 1.0
    longest: float = 10.0
    unschedulable: float = 300.0  # after so long a pod is tried without any reason


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told what happens in the queue."""

    wake: Callable[[], None]  # there may be a pod to be tried
    came: Callable[[str, str], None] = lambda _, __: None  # a pod has come to a part, and why
    asked: Asked = lambda *_: None


class SchedulingQueue:
    """Always true: a pod is in exactly one part, or being tried, or not known."""

    def __init__(self, profiles: Mapping[str, Rules], clock: Clock, patience: Patience, listeners: Listeners) -> None:
        self._profiles = profiles
        self._clock = clock
        self._patience = patience
        self._wake, self._came = listeners.wake, listeners.came
        self._hints = Hints(profiles, clock, listeners.asked)
        self._pods: dict[ObjectKey, QueuedPod] = {}
        self._active: list[tuple[Any, int, ObjectKey]] = []
        self._backoff: _Timed = []
        self._failed: _Timed = []  # backing off after an error: these wait in any case
        self._waiting: dict[str, dict[ObjectKey, QueuedPod]] = {}  # unschedulable, by the plugins that refused
        self._trying = InFlight()
        self._ties = count()

    def __len__(self) -> int:
        return len(self._pods)

    # What is counted.

    def sizes(self) -> dict[str, int]:
        """How many pods each part has."""
        sizes = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, GATED: 0}
        for one in self._pods.values():
            sizes[GATED if one.gate else one.place] += 1
        return sizes

    def refused(self) -> Mapping[tuple[str, ...], float]:
        """How many pods wait to be tried again that a plugin of a profile has refused."""
        found: Counter[tuple[str, ...]] = Counter()
        for one in self._pods.values():
            found.update((plugin, one.info.pod.spec.scheduler_name) for plugin in one.rejectors)
        return {key: float(number) for key, number in found.items()}

    def in_flight(self) -> Mapping[tuple[str, ...], float]:
        """How many changes are remembered for pods that are being tried."""
        return self._trying.sizes()

    def get(self, key: ObjectKey) -> QueuedPod | None:
        return self._pods.get(key)

    # What comes in.

    def add(self, info: PodInfo) -> None:
        """A pod that was not known."""
        self.delete(info.key)
        self._activate(QueuedPod(info, self._clock.monotonic()), "UnscheduledPodAdd")

    def update(self, old: Pod, info: PodInfo, changes: Iterable[About]) -> None:
        """A pod has changed; if it was refused, that may help."""
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
        queued = self._pods.pop(key, None)
        if queued is not None and queued.place == UNSCHEDULABLE:
            self._unfile(queued)

    # What goes out.

    def pop(self) -> QueuedPod | None:
        """The pod to be tried next; one that still backs off if there is no other. `done` or `put_back` follow."""
        self.flush()
        while (queued := self._pop_active() or self._pop_backing_off()) is not None:
            del self._pods[queued.key]
            queued.place = ""
            if queued.info.uid not in self._trying:  # else somebody is at it already
                break
        else:
            return None
        queued.attempts += 1
        queued.urged = False
        queued.tried_at = self._clock.monotonic()
        self._trying.begin(queued)
        return queued

    def done(self, uid: str) -> None:
        """The pod has its node, or is gone; or what happens from now on does not matter any more."""
        self._trying.end(uid)

    def put_back(self, queued: QueuedPod, *, error: bool = False) -> None:
        """A pod that was refused by `queued.plugins`, or met an error; what happened meanwhile may help it."""
        urgency = Urgency.LATER if error or queued.urged else self._urgency_meanwhile(queued)
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

    def _urgency_meanwhile(self, queued: QueuedPod) -> Urgency:
        uid = queued.info.uid
        if uid not in self._trying:
            return Urgency.LATER  # it was refused so late that nobody has listened for it
        found = Urgency.NEVER
        for one in self._trying.since(uid):
            found = max(found, self._hints.urgency(queued, one.about, one.old, one.new))
            if found is Urgency.NOW or (found and not queued.pending):
                break
        return found

    # What may help.

    def move(self, about: About, old: Any, new: Any, check: Check | None = None) -> None:
        """Something has happened: pods that it may help are tried again."""
        if not self._waiting and not self._trying:
            return
        plugins = self._hints.interested(about)
        for plugin in (*sorted(plugins & self._waiting.keys()), ""):
            for queued in tuple(self._waiting.get(plugin, {}).values()):
                if queued.place == UNSCHEDULABLE and (check is None or check(queued.info)):
                    self._hear(queued, about, old, new)
        if plugins:
            self._trying.remember(about, old, new)

    def _hear(self, queued: QueuedPod, about: About, old: Any, new: Any) -> None:
        if self._hints.reaches(queued, about):
            self._requeue(queued, about, old, new)

    def activate(self, keys: Iterable[ObjectKey]) -> None:
        """Try these at once, whatever they wait for; those that are being tried, again after their backoff."""
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

    def _requeue(self, queued: QueuedPod, about: About, old: Any, new: Any) -> bool:
        """Whether the pod does not wait any more."""
        urgency = self._hints.urgency(queued, about, old, new)
        if urgency is Urgency.NEVER:
            return False
        self._leave(queued)
        self._place(queued, urgency, about.label)
        return queued.place != UNSCHEDULABLE

    # Time.

    def next_deadline(self) -> float | None:
        """When `flush` has something to do, on the monotonic clock."""
        firsts = [heap[0][0] + _WINDOW for heap in (self._backoff, self._failed) if self._tidy(heap)]
        return min(firsts, default=None)

    def flush(self) -> None:
        """Move on those whose backoff has ended."""
        now = self._clock.monotonic()
        for heap in (self._backoff, self._failed):
            while self._tidy(heap) and heap[0][0] + _WINDOW <= now:
                self._activate(self._pods[heapq.heappop(heap)[3]], "BackoffComplete", checked=True)

    def flush_unschedulable(self) -> None:
        """Try again those that have waited for too long for any change."""
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
            self._place(queued, Urgency.LATER, "UnschedulableTimeout")

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    # The parts.

    def _place(self, queued: QueuedPod, urgency: Urgency, why: str) -> None:
        if urgency is Urgency.NEVER:
            self._file(queued, why)
        elif urgency is Urgency.NOW or self._backoff_end(queued) + _WINDOW <= self._clock.monotonic():
            self._activate(queued, why)
        else:
            self._back_off(queued, why)

    def _activate(self, queued: QueuedPod, why: str, *, checked: bool = False) -> None:
        """With `checked`, whoever may hold the pod back has been asked already."""
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

    def _back_off(self, queued: QueuedPod, why: str) -> None:
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

    def _file(self, queued: QueuedPod, why: str) -> None:
        self._pods[queued.key] = queued
        queued.place = UNSCHEDULABLE
        if queued.gate:
            queued.flushed = False
        self._came(UNSCHEDULABLE, why)
        for plugin in _files_of(queued):
            self._waiting.setdefault(plugin, {})[queued.key] = queued

    def _unfile(self, queued: QueuedPod) -> None:
        for plugin in _files_of(queued):
            group = self._waiting.get(plugin)
            if group is not None:
                group.pop(queued.key, None)
                if not group:
                    del self._waiting[plugin]

    def _leave(self, queued: QueuedPod) -> None:
        if queued.place == UNSCHEDULABLE:
            self._unfile(queued)
        queued.place = ""
        self._pods.pop(queued.key, None)

    def _is_gated(self, queued: QueuedPod) -> bool:
        """Ask those who may hold a pod back, first whoever did so last."""
        last, queued.gate = queued.gate, ""
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        for plugin in sorted(rules.gates(), key=lambda one: one.name != last):
            if plugin.pre_enqueue(queued.info) is not None:
                queued.gate = plugin.name
                queued.plugins |= {plugin.name}
                return True
        return False

    def _backoff_end(self, queued: QueuedPod) -> float:
        times = queued.errors or queued.refused
        if not times or not self._patience.longest:
            return -math.inf
        if queued.backoff_until is None:
            seconds = min(self._patience.first * 2.0 ** min(times - 1, 60), self._patience.longest)
            queued.backoff_until = math.floor((queued.added_at + seconds) / _WINDOW) * _WINDOW
        return queued.backoff_until

    def _pop_active(self) -> QueuedPod | None:
        while self._active:
            _, tie, key = heapq.heappop(self._active)
            if self._is_at(key, ACTIVE, tie):
                return self._pods[key]
        return None

    def _pop_backing_off(self) -> QueuedPod | None:
        if not self._tidy(self._backoff):
            return None
        self._came(ACTIVE, "PopFromBackoffQ")
        return self._pods[heapq.heappop(self._backoff)[3]]

    def _tidy(self, heap: _Timed) -> bool:
        """Drop what is outdated from the front; whether anything is left."""
        while heap and not self._is_at(heap[0][3], BACKOFF, heap[0][2]):
            heapq.heappop(heap)
        return bool(heap)

    def _tie(self, queued: QueuedPod) -> int:
        """A number of its own for each entry of a heap, by which outdated ones are known."""
        queued.tie = next(self._ties)
        return queued.tie

    def _is_at(self, key: ObjectKey, place: str, tie: int) -> bool:
        queued = self._pods.get(key)
        return queued is not None and queued.place == place and queued.tie == tie


def _files_of(queued: QueuedPod) -> Iterable[str]:
    return sorted(queued.rejectors) or ("",)
