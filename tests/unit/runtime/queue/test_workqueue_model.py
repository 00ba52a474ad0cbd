# SPDX-License-Identifier: Apache-2.0
"""The queue against a plain model of it, through random sequences of everything one can do with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubeloop.runtime.causes.cause import MAX_ORIGINS, Origin, Origins
from kubeloop.runtime.queue.workqueue import (
    FRESH_KEYS_PER_RESYNC,
    LOW,
    MAX_RESYNC_DELAY,
    NORMAL,
    Item,
    Priority,
    WorkQueue,
)
from kubeloop.sim.loop import VirtualClock, VirtualLoop

KEYS = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from([NORMAL, LOW])


@dataclass
class QueuedItem:
    key: str
    priority: Priority
    since: float
    origins: list[str] = field(default_factory=list)


class Model:
    """Model of the queue with lists: waiting keys in order, running keys, and delayed ones."""

    def __init__(self) -> None:
        self.ready: list[QueuedItem] = []
        self.running: set[str] = set()
        self.again: dict[str, QueuedItem] = {}
        self.delayed: dict[str, tuple[float, QueuedItem]] = {}
        self.getters = 0
        self.taken: list[tuple[str, list[str]]] = []
        self.passed_over = 0

    def add(self, key: str, priority: Priority, origins: list[str], now: float) -> None:
        known = self.again.get(key) or next((one for one in self.ready if one.key == key), None)
        if known is not None:
            known.origins = (known.origins + origins)[-MAX_ORIGINS:]
            if priority < known.priority:
                known.priority = priority
                if known in self.ready:  # it joins the fresh at their end
                    self.ready.remove(known)
                    self.ready.append(known)
        elif key in self.running:
            self.again[key] = QueuedItem(key, priority, now, origins)
        else:
            self.ready.append(QueuedItem(key, priority, now, origins))
        self.hand_out(now)

    def add_after(self, key: str, when: float, origins: list[str]) -> None:
        before = self.delayed.get(key)
        if before is None:
            self.delayed[key] = (when, QueuedItem(key, NORMAL, 0, origins))
        else:
            before[1].origins = (before[1].origins + origins)[-MAX_ORIGINS:]
            self.delayed[key] = (min(when, before[0]), before[1])

    def advance_to(self, moment: float) -> None:
        for key, (when, one) in sorted(self.delayed.items(), key=lambda entry: entry[1][0]):
            if when <= moment:
                del self.delayed[key]
                self.add(key, one.priority, one.origins, when)

    def done(self, key: str, now: float) -> None:
        self.running.remove(key)
        if key in self.again:
            self.ready.append(self.again.pop(key))
        self.hand_out(now)

    def hand_out(self, now: float) -> None:
        while self.getters and self.ready:
            fresh = [one for one in self.ready if one.priority is NORMAL]
            resyncs = [one for one in self.ready if one.priority is LOW]
            overdue = (
                bool(resyncs)
                and self.passed_over >= FRESH_KEYS_PER_RESYNC
                and now - resyncs[0].since > MAX_RESYNC_DELAY
            )
            if fresh and not overdue:
                one, self.passed_over = fresh[0], self.passed_over + 1
            else:
                one, self.passed_over = resyncs[0], 0
            self.ready.remove(one)
            self.running.add(one.key)
            self.getters -= 1
            self.taken.append((one.key, one.origins))


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.queue: WorkQueue[str] = WorkQueue(VirtualClock(self.loop))
        self.model = Model()
        self.items: list[Item[str] | None] = []
        self.getters: list[asyncio.Task[None]] = []
        self.changes = 0

    def origin(self) -> Origins:
        self.changes += 1
        return (Origin("Pod", "default", str(self.changes), "1", "MODIFIED"),)

    def do(self, call: object = None, seconds: float = 0) -> None:
        async def step() -> None:
            if callable(call):
                call()
            await self.loop.advance(seconds)

        self.loop.run_until_complete(step())

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: Priority) -> None:
        origins = self.origin()
        self.model.add(key, priority, [origins[0].name], self.loop.time())
        self.do(lambda: self.queue.add(key, origins, priority))

    @rule(key=KEYS, seconds=st.integers(1, 200))
    def add_after(self, key: str, seconds: int) -> None:
        origins = self.origin()
        delay = seconds + self.changes / 1000  # distinct times: otherwise the order would be undefined
        self.model.add_after(key, self.loop.time() + delay, [origins[0].name])
        self.do(lambda: self.queue.add_after(key, delay, origins))

    @rule(seconds=st.integers(1, 100))
    def time_passes(self, seconds: int) -> None:
        self.model.advance_to(self.loop.time() + seconds)
        self.do(seconds=seconds)

    @rule()
    def get(self) -> None:
        async def getter() -> None:
            self.items.append(await self.queue.get())

        self.model.getters += 1
        self.model.hand_out(self.loop.time())
        self.getters.append(self.loop.create_task(getter()))
        self.do()

    @precondition(lambda self: self.model.getters)
    @rule(data=st.data())
    def a_getter_is_cancelled(self, data: st.DataObject) -> None:
        waiting = [task for task in self.getters if not task.done()]
        self.model.getters -= 1
        self.do(data.draw(st.sampled_from(waiting)).cancel)

    @precondition(lambda self: self.model.getters)
    @rule(key=KEYS, data=st.data())
    def a_getter_is_cancelled_as_a_key_comes(self, key: str, data: st.DataObject) -> None:
        waiting = [task for task in self.getters if not task.done()]
        cancelled = data.draw(st.sampled_from(waiting))
        origins = self.origin()
        self.model.getters -= 1
        self.model.add(key, NORMAL, [origins[0].name], self.loop.time())

        def both() -> None:
            self.queue.add(key, origins)
            cancelled.cancel()

        self.do(both)

    @precondition(lambda self: self.model.running)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.running)))
        self.model.done(key, self.loop.time())
        self.do(lambda: self.queue.done(key))

    @invariant()
    def keys_come_in_the_models_order_with_all_their_origins(self) -> None:
        taken = [(item.key, [origin.name for origin in item.origins]) for item in self.items if item is not None]
        assert taken == self.model.taken

    @invariant()
    def every_key_is_where_the_model_has_it(self) -> None:
        queue, ready = self.queue, self.model.ready
        assert list(queue._fresh) == [one.key for one in ready if one.priority is NORMAL]
        assert list(queue._resyncs) == [one.key for one in ready if one.priority is LOW]
        assert set(queue._running) == self.model.running
        assert set(queue._again) == set(self.model.again)
        assert set(queue._delayed) == set(self.model.delayed)

    @invariant()
    def what_the_fields_promise_holds(self) -> None:
        queue = self.queue
        assert not queue._fresh.keys() & queue._resyncs.keys()
        assert not (queue._fresh.keys() | queue._resyncs.keys()) & queue._running.keys()
        assert queue._again.keys() <= queue._running.keys()
        assert not (queue._getters and (queue._fresh or queue._resyncs))

    def teardown(self) -> None:
        """Drained, everything that was added and not taken yet is handed out, and then nothing is."""
        left = sorted([one.key for one in self.model.ready] + list(self.model.again))
        before = len(self.items)

        async def drain() -> None:
            self.queue.shut_down()
            for key in sorted(self.model.running):
                self.queue.done(key)
            while (item := await self.queue.get()) is not None:
                self.items.append(item)
                self.queue.done(item.key)
            await self.queue.wait_drained()
            await asyncio.gather(*self.getters, return_exceptions=True)

        self.loop.run_until_complete(drain())
        assert sorted(item.key for item in self.items[before:] if item is not None) == left
        self.loop.close()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
