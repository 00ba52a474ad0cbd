"""The pods that wait for a node, in three parts: ready to be tried, backing off, and waiting for a helpful change.

add ─▶ active ─ pop ─▶ (tried) ─ refused ─▶ unschedulable ─ a change that may help ─▶ backing off ─ time ─▶ active
         ▲                        └ failed ─▶ backing off                                │
         └──────────────────── nothing else to do ◀─────────────────────────────────────┘
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.clock import Clock
from kubeloop.runtime.keys import ObjectKey
from kubeloop.scheduler.changes import NODE, TARGET_POD, About, Action
from kubeloop.scheduler.framework import ANYTHING, Interest, Plugin
from kubeloop.scheduler.outcome import EXTENDER
from kubeloop.scheduler.pod_info import PodInfo
from kubeloop.scheduler.queued import QueuedPod

ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
_WINDOW = 1.0  # seconds; pods whose backoff ends within the same one are ordered as in the active part
_CHANGES_KEPT = 4096
_FAILED = "ScheduleAttemptFailure"
_OWN_STATUS = About(TARGET_POD, Action.UPDATE)

Check = Callable[[PodInfo], bool]
_Timed = list[tuple[float, Any, int, ObjectKey]]  # a heap: end of the backoff, order, tie breaker


@dataclass(frozen=True, slots=True)
class Patience:
    """How long pods wait before they are tried again; in seconds."""

    first: float = 1.0
    longest: float = 10.0
    unschedulable: float = 300.0  # after so long a pod is tried without any reason


@dataclass(frozen=True, slots=True)
class Rules:
    """What the queue needs of a profile."""

    sort_key: Callable[[QueuedPod], Any]
    gates: Callable[[], Iterable[Plugin]]
    interests: Callable[[], Mapping[str, list[tuple[str, Interest]]]]  # by resource, with the plugin's name


class SchedulingQueue:
    """Always true: a pod is in exactly one part, or being tried, or not known."""

    def __init__(
        self,
        profiles: Mapping[str, Rules],
        clock: Clock,
        patience: Patience,
        wake: Callable[[], None],
        came: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        self._profiles = profiles
        self._clock = clock
        self._patience = patience
        self._wake = wake
        self._came = came  # told of each pod that comes to a part, and why
        self._pods: dict[ObjectKey, QueuedPod] = {}
        self._active: list[tuple[Any, int, ObjectKey]] = []
        self._backoff: _Timed = []
        self._failed: _Timed = []  # backing off after an error: these wait in any case
        self._waiting: dict[str, dict[ObjectKey, QueuedPod]] = {}  # unschedulable, by the plugins that refused
        self._trying: dict[ObjectKey, QueuedPod] = {}
        self._changes: list[tuple[int, About, Any, Any]] = []  # while pods are being tried
        self._change_number = 0
        self._ties = count()

    def __len__(self) -> int:
        return len(self._pods)

    def sizes(self) -> dict[str, int]:
        """How many pods each part has."""
        sizes = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, "gated": 0}
        for one in self._pods.values():
            sizes["gated" if one.gate else one.place] += 1
        return sizes

    def refused_by(self, plugin: str, profile: str) -> int:
        """How many pods of a profile wait for a plugin."""
        return sum(one.info.pod.spec.scheduler_name == profile for one in self._waiting.get(plugin, {}).values())

    def get(self, key: ObjectKey) -> QueuedPod | None:
        return self._pods.get(key)

    # What comes in.

    def add(self, info: PodInfo) -> None:
        """A pod that was not known."""
        self.delete(info.key)
        self._activate(QueuedPod(info, self._clock.monotonic()), "PodAdd")

    def update(self, old: Pod, info: PodInfo, changes: Iterable[About]) -> None:
        """A pod has changed; if it was refused, that may help."""
        if info.key in self._trying:
            for about in changes:
                self._remember(about, old, info.pod)
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
        queued = self._pop_active() or self._pop_backing_off()
        if queued is None:
            return None
        del self._pods[queued.key]
        queued.place = ""
        queued.attempts += 1
        queued.tried_at = self._clock.monotonic()
        queued.seen_changes = self._change_number
        self._trying[queued.key] = queued
        return queued

    def done(self, key: ObjectKey) -> None:
        """The pod has its node, or is gone."""
        self._trying.pop(key, None)
        if not self._trying:
            self._changes.clear()

    def put_back(self, queued: QueuedPod, *, error: bool = False) -> None:
        """A pod that was refused by `queued.plugins`, or met an error; what happened meanwhile may help it."""
        meanwhile = [one for one in self._changes if one[0] > queued.seen_changes]
        self.done(queued.key)
        if queued.key in self._pods:
            return
        queued.added_at, queued.backoff_until = self._clock.monotonic(), None
        if error:
            queued.errors += 1
            self._back_off(queued, _FAILED)
            return
        queued.refused += 1
        queued.errors = 0
        if any(self._is_worth(queued, about, old, new) for _, about, old, new in meanwhile):
            self._after_backoff(queued, _FAILED)
        else:
            self._file(queued, _FAILED)

    # What may help.

    def move(self, about: About, old: Any, new: Any, check: Check | None = None) -> None:
        """Something has happened: pods that it may help are tried again."""
        if self._trying:
            self._remember(about, old, new)
        if not self._waiting:
            return
        plugins = {name for rules in self._profiles.values() for name, _ in self._interested(rules, about)}
        if not plugins and EXTENDER not in self._waiting:
            return
        woken = False
        for plugin in (*sorted(plugins), EXTENDER, ""):
            for queued in tuple(self._waiting.get(plugin, {}).values()):
                if queued.place == UNSCHEDULABLE and (check is None or check(queued.info)):
                    woken |= self._requeue(queued, about, old, new)
        if woken:
            self._wake()

    def activate(self, keys: Iterable[ObjectKey]) -> None:
        """Try these at once, whatever they wait for."""
        for key in keys:
            queued = self._pods.get(key)
            if queued is not None and queued.place != ACTIVE:
                self._leave(queued)
                self._activate(queued, "ForceActivate")

    def _remember(self, about: About, old: Any, new: Any) -> None:
        self._change_number += 1
        if len(self._changes) < _CHANGES_KEPT:
            self._changes.append((self._change_number, about, old, new))

    def _requeue(self, queued: QueuedPod, about: About, old: Any, new: Any) -> bool:
        if not self._is_worth(queued, about, old, new):
            return False
        self._leave(queued)
        if queued.pending:
            self._activate(queued, about.label)
        else:
            self._after_backoff(queued, about.label)
        return queued.place != UNSCHEDULABLE

    def _is_worth(self, queued: QueuedPod, about: About, old: Any, new: Any) -> bool:
        rejectors = queued.rejectors
        if not rejectors and not queued.gate:
            return about.resource == NODE  # nobody refused it: there was no node at all
        if EXTENDER in rejectors and about != _OWN_STATUS:
            return True  # nobody knows what helps there
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        for plugin, interest in self._interested(rules, about):
            concerned = plugin == queued.gate if queued.gate else plugin in rejectors
            if concerned and (interest.hint is None or interest.hint(queued.info, old, new)):
                return True
        return False

    def _interested(self, rules: Rules, about: About) -> Iterable[tuple[str, Interest]]:
        known = rules.interests()
        # What a pod is told of itself is no news to it.
        others = () if about == _OWN_STATUS else known.get(ANYTHING, ())
        for plugin, interest in (*known.get(about.resource, ()), *others):
            if about.action & interest.actions:
                yield plugin, interest

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
                self._activate(self._pods[heapq.heappop(heap)[3]], "BackoffComplete")

    def flush_unschedulable(self) -> None:
        """Try again those that have waited for too long for any change."""
        before = self._clock.monotonic() - self._patience.unschedulable
        old = {
            queued.key: queued
            for group in self._waiting.values()
            for queued in group.values()
            if queued.added_at < before
        }
        for queued in old.values():
            self._leave(queued)
            self._after_backoff(queued, "UnschedulableTimeout")

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    # The parts.

    def _activate(self, queued: QueuedPod, why: str) -> None:
        if self._is_gated(queued):
            self._file(queued, why)
            return
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        self._pods[queued.key] = queued
        queued.place = ACTIVE
        self._came(ACTIVE, why)
        heapq.heappush(self._active, (rules.sort_key(queued), self._tie(queued), queued.key))
        self._wake()

    def _after_backoff(self, queued: QueuedPod, why: str) -> None:
        if self._backoff_end(queued) + _WINDOW <= self._clock.monotonic():
            self._activate(queued, why)
        else:
            self._back_off(queued, why)

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
        self._came("gated" if queued.gate else UNSCHEDULABLE, why)
        for plugin in self._files_of(queued):
            self._waiting.setdefault(plugin, {})[queued.key] = queued

    def _unfile(self, queued: QueuedPod) -> None:
        for plugin in self._files_of(queued):
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

    def _files_of(self, queued: QueuedPod) -> Iterable[str]:
        return (queued.gate,) if queued.gate else sorted(queued.rejectors) or ("",)

    def _is_gated(self, queued: QueuedPod) -> bool:
        """Ask those who may hold a pod back, first whoever did so last."""
        last, queued.gate = queued.gate, ""
        rules = self._profiles[queued.info.pod.spec.scheduler_name]
        for plugin in sorted(rules.gates(), key=lambda one: one.name != last):
            if plugin.pre_enqueue(queued.info) is not None:
                queued.gate = plugin.name
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
        return self._pods[heapq.heappop(self._backoff)[3]] if self._tidy(self._backoff) else None

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
