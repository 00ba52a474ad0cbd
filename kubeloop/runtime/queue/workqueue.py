# SPDX-License-Identifier: Apache-2.0
"""Work queue: deduplicates keys, is fair, prefers fresh changes to resyncs, never hands a key to two workers.

add ─────────────────────▶ ready ── get ──▶ in work ── done ──▶ gone
add_after ──▶ delayed ───────┘ ▲                        │
                               └── added while in work ─┘
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from enum import IntEnum
from typing import Generic, TypeVar

import msgspec

from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.causes.cause import Origins, merge_origins
from kubeloop.runtime.queue.rate_limiters import RateLimiter, default_controller_rate_limiter
from kubeloop.runtime.standard_metrics import QueueMetrics, register_queue_metrics

Key = TypeVar("Key", bound=Hashable)

MAX_RESYNC_DELAY = 60.0  # seconds a resync may be passed over by fresh changes…
FRESH_KEYS_PER_RESYNC = 32  # …before one taken key in so many is such a resync


class Priority(IntEnum):
    """Priority of a waiting key."""

    NORMAL = 0
    LOW = 1  # nothing is known to have changed: a resync


NORMAL, LOW = Priority.NORMAL, Priority.LOW


class Item(msgspec.Struct, Generic[Key], gc=False):
    """Key with its origins. Complete once `get` has returned it; until then the queue may add to it."""

    key: Key
    origins: Origins
    priority: Priority
    queued_at: float

    def merge(self, origins: Origins, priority: Priority) -> None:
        """Merge a second addition of the same key."""
        if origins:
            self.origins = merge_origins(self.origins, origins)
        if priority < self.priority:
            self.priority = priority


class _Delayed(msgspec.Struct, Generic[Key]):
    """Key that is added at a later time."""

    item: Item[Key]
    when: float
    timer: asyncio.TimerHandle


class QueueSnapshot(msgspec.Struct, Generic[Key], frozen=True):
    """Keys of a queue at one moment, for people."""

    ready: tuple[Key, ...]  # to be taken, also once more when their present run ends
    running: tuple[Key, ...]
    delayed: tuple[tuple[Key, float], ...]  # with the seconds until they are ready


class WorkQueue(Generic[Key]):
    """Deduplicating, fair, delaying, rate-limited queue with two priorities. For one event loop; never blocks it."""

    def __init__(
        self,
        clock: Clock,
        *,
        name: str = "",
        limiter: RateLimiter[Key] | None = None,
        registry: MetricRegistry | None = None,
    ) -> None:
        self._clock = clock
        self._limiter: RateLimiter[Key] = limiter or default_controller_rate_limiter(clock)
        # Keys that may be taken now, longest waiting first. A key is in at most one level, and never in `_running`.
        self._fresh: OrderedDict[Key, Item[Key]] = OrderedDict()
        self._resyncs: OrderedDict[Key, Item[Key]] = OrderedDict()
        # Keys between `get` and `done`, with the moment of their `get`.
        self._running: dict[Key, float] = {}
        # Keys added while they ran: a subset of `_running`. `done` moves them to their level.
        self._again: dict[Key, Item[Key]] = {}
        # Keys that will be added; independent of where the key is now. Empty once shut down.
        self._delayed: dict[Key, _Delayed[Key]] = {}
        # Waiters in `get`, longest first. For each key that became ready one has been woken, as long as any waited.
        self._getters: deque[asyncio.Future[None]] = deque()
        # Waiters in `drained`.
        self._drainers: list[asyncio.Future[None]] = []
        self._taken_before_resync = 0  # fresh keys taken since a resync last was
        self.shutting_down = False
        self.adds = 0
        self.requeues = 0
        self._metrics: QueueMetrics | None = register_queue_metrics(registry, name, self) if registry else None

    # -- adding

    def add(self, key: Key, origins: Origins = (), priority: Priority = NORMAL) -> None:
        """Add a key. A waiting key keeps its position or improves it; a running one runs again afterwards.

        Ignored after shutdown.
        """
        if self.shutting_down:
            return
        if key in self._running:
            waiting = self._again.get(key)
            if waiting is None:
                self._again[key] = Item(key, origins, priority, self._clock.monotonic())
                self.adds += 1
            else:
                waiting.merge(origins, priority)
            return
        waiting = self._fresh.get(key)
        if waiting is not None:
            if origins:
                waiting.origins = merge_origins(waiting.origins, origins)
            return
        waiting = self._resyncs.get(key)
        if waiting is None:
            self.adds += 1
            self._make_ready(Item(key, origins, priority, self._clock.monotonic()))
            return
        waiting.merge(origins, priority)
        if waiting.priority is NORMAL:
            self._fresh[key] = self._resyncs.pop(key)

    def add_after(self, key: Key, seconds: float, origins: Origins = (), priority: Priority = NORMAL) -> None:
        """Add the key after a delay; the earliest of several times counts."""
        if self.shutting_down:
            return
        self.requeues += 1
        if seconds <= 0:
            self.add(key, origins, priority)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        before = self._delayed.get(key)
        if before is not None:
            before.item.merge(origins, priority)
            if before.when > when:
                before.timer.cancel()
                before.when, before.timer = when, loop.call_at(when, self._add_due, key)
            return
        timer = loop.call_at(when, self._add_due, key)
        self._delayed[key] = _Delayed(Item(key, origins, priority, 0.0), when, timer)

    def add_rate_limited(self, key: Key, origins: Origins = (), priority: Priority = NORMAL) -> float:
        """Add the key after the limiter's delay, which is returned in seconds."""
        delay = self._limiter.when(key)
        self.add_after(key, delay, origins, priority)
        return delay

    def forget(self, key: Key) -> None:
        """Reset the key's failures. It stays in the queue if it is there."""
        self._limiter.forget(key)

    def num_requeues(self, key: Key) -> int:
        """Return the number of rate-limited additions of the key since it was last forgotten."""
        return self._limiter.retries(key)

    # -- taking

    async def get(self) -> Item[Key] | None:
        """Return the next key, exclusive until `done`; None when the queue is shut down and empty."""
        while not self._fresh and not self._resyncs:
            if self.shutting_down and not self._again:
                return None
            await self._wait_ready()
        item = self._take()
        now = self._clock.monotonic()
        self._running[item.key] = now
        if self._metrics is not None:
            self._metrics.observe_wait(now - item.queued_at)
        return item

    def done(self, key: Key) -> float:
        """Mark work on the key as ended; returns its seconds. A key added meanwhile is ready again."""
        seconds = self._clock.monotonic() - self._running.pop(key)
        if self._metrics is not None:
            self._metrics.observe_work(seconds)
        if self._again and key in self._again:
            self._make_ready(self._again.pop(key))
        elif self.shutting_down:
            self._wake_if_drained()
        return seconds

    # -- ending

    def shut_down(self, *, drain: bool = True) -> None:
        """Accept no more keys and drop the delayed ones. Without `drain`, ready keys are dropped, too."""
        self.shutting_down = True
        for delayed in self._delayed.values():
            delayed.timer.cancel()
        self._delayed.clear()
        if not drain:
            self._fresh.clear()
            self._resyncs.clear()
            self._again.clear()
        self._wake_if_drained()

    async def wait_drained(self) -> None:
        """Wait until the queue is shut down and all work is done."""
        if self.shutting_down and not self._running and not self.depth:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._drainers.append(waiter)
        await waiter

    # -- inspection

    @property
    def depth(self) -> int:
        """Number of keys that are ready or will be as soon as their present run ends."""
        return len(self._fresh) + len(self._resyncs) + len(self._again)

    @property
    def delayed(self) -> int:
        """Number of delayed keys."""
        return len(self._delayed)

    @property
    def running(self) -> int:
        """Number of keys in work."""
        return len(self._running)

    def snapshot(self) -> QueueSnapshot[Key]:
        """Return all keys, by what they wait for."""
        now = self._clock.monotonic()
        delayed = tuple((key, one.when - now) for key, one in self._delayed.items())
        return QueueSnapshot((*self._fresh, *self._resyncs, *self._again), tuple(self._running), delayed)

    def running_seconds(self) -> list[float]:
        """Seconds that each key in work has been so."""
        now = self._clock.monotonic()
        return [now - began for began in self._running.values()]

    def oldest_running(self) -> tuple[Key, float] | None:
        """Return the key that has been in work longest, with its seconds."""
        if not self._running:
            return None
        key, began = next(iter(self._running.items()))  # a dict keeps the order of insertion: of `get`s
        return key, self._clock.monotonic() - began

    # -- internals

    def _make_ready(self, item: Item[Key]) -> None:
        level = self._fresh if item.priority is NORMAL else self._resyncs
        level[item.key] = item
        if self._getters:
            self._wake_one()

    def _take(self) -> Item[Key]:
        if not self._fresh or (self._resyncs and self._resync_is_due()):
            self._taken_before_resync = 0
            return self._resyncs.popitem(last=False)[1]
        self._taken_before_resync += 1
        return self._fresh.popitem(last=False)[1]

    def _resync_is_due(self) -> bool:
        """Return True if the oldest resync was passed over for too long."""
        if self._taken_before_resync < FRESH_KEYS_PER_RESYNC:
            return False
        longest_waiting = next(iter(self._resyncs.values()))
        return self._clock.monotonic() - longest_waiting.queued_at > MAX_RESYNC_DELAY

    def _add_due(self, key: Key) -> None:
        item = self._delayed.pop(key).item
        self.add(key, item.origins, item.priority)

    async def _wait_ready(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._getters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # woken and cancelled in one turn: wake another waiter
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_if_drained(self) -> None:
        if self.depth:
            return
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._getters.clear()
        if not self._running:
            for waiter in self._drainers:
                if not waiter.done():
                    waiter.set_result(None)
            self._drainers.clear()
