"""One priority level at work: seats, and queues before them that are served in fair turns."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from kubeloop.apiserver.flowcontrol.config import LevelConfig, Queuing
from kubeloop.apiserver.flowcontrol.seat_allocation import Bounds, Need

# A quarter of upstream's request timeout: then whoever waited is told to come back.
_LONGEST_WAIT_SECONDS = 15.0
_WIDEST_SHARE = 0.15
_WIDEST = 10
# How slowly what a level usually needs falls behind what it needs now.
_SMOOTHING = 0.9


class NoSeat(Exception):
    """A request that can't be served now; the message is upstream's word for why."""


class Waiting(NamedTuple):
    """Somebody before the seats."""

    turn: asyncio.Future[None]
    width: int


class Queue:
    """`credit` is how much has been served of it, in seats; the queue with the least goes next."""

    __slots__ = ("credit", "requests")

    def __init__(self) -> None:
        self.requests: deque[Waiting] = deque()
        self.credit = 0.0


class Level:
    """Invariants: `waiting` counts the requests in all queues, `busy` are the queues that have any; there are none
    while seats are free for the next of them. `served` is the credit of whoever was served last: a queue that wakes
    up begins there, and gets nothing for having slept.
    """

    def __init__(self, config: LevelConfig) -> None:
        self.name = config.metadata.name
        self.uid = config.metadata.uid
        self.is_exempt = config.is_exempt
        self.queuing: Queuing | None = None
        self.bounds = Bounds(0, 0, 0)
        self.limit = 0
        self.executing = 0  # seats
        self.waiting = 0
        self.most = 0  # seats asked for at one time since somebody last looked
        self.usual = 0.0
        self._queues: list[Queue] = []
        self._busy: set[Queue] = set()
        self._served = 0.0

    def configure(self, config: LevelConfig, bounds: Bounds) -> None:
        """What was dealt before the change stays in its queue until it is served."""
        fresh = not self.limit
        self.uid, self.is_exempt = config.metadata.uid, config.is_exempt
        if self.queuing != config.queuing:
            self.queuing = config.queuing
            self._queues = [Queue() for _ in range(config.queuing.queues)] if config.queuing is not None else []
        if fresh or self.bounds != bounds:
            self.bounds = bounds
            self.limit = max(1, bounds.nominal - (bounds.nominal - bounds.lower) // 2)
        self._dispatch()

    @property
    def widest(self) -> int:
        """How many seats one request may take."""
        hand = self.queuing.hand_size if self.queuing is not None else 1
        return max(1, min(_WIDEST, int(_WIDEST_SHARE * self.bounds.nominal), self.bounds.nominal // hand))

    def take(self, width: int) -> bool:
        """A seat at once, if there is one and nobody waits."""
        if self.is_exempt or (not self.waiting and (self.executing + width <= self.limit or not self.executing)):
            self.executing += width
            if self.executing > self.most:
                self.most = self.executing
            return True
        return False

    async def wait(self, hand: tuple[int, ...], width: int) -> None:
        """A seat in turn. Raises `NoSeat` where there is no room to wait, or it took too long."""
        if not self._queues:
            raise NoSeat("concurrency-limit")
        queue = min((self._queues[index % len(self._queues)] for index in hand), key=lambda one: len(one.requests))
        assert self.queuing is not None, "there are queues"
        if len(queue.requests) >= self.queuing.queue_length_limit:
            raise NoSeat("queue-full")
        loop = asyncio.get_running_loop()
        one = Waiting(loop.create_future(), width)
        self._enqueue(queue, one)
        timer = loop.call_later(_LONGEST_WAIT_SECONDS, self._give_up, queue, one)
        try:
            await one.turn
        except asyncio.CancelledError:
            if one.turn.done() and not one.turn.cancelled():
                self.release(width)  # the seat came in the very moment in which its owner left
            else:
                self._remove(queue, one)
            raise
        finally:
            timer.cancel()

    def release(self, width: int) -> None:
        self.executing -= width
        if self.waiting:
            self._dispatch()

    def review(self) -> Need:
        """What was needed since the last time."""
        most, self.most = self.most, self.executing + self.waiting
        self.usual = max(float(most), _SMOOTHING * self.usual + (1 - _SMOOTHING) * most)
        return Need(most, self.usual)

    def set_limit(self, limit: int) -> None:
        self.limit = limit
        self._dispatch()

    def _enqueue(self, queue: Queue, one: Waiting) -> None:
        if not queue.requests:
            queue.credit = max(queue.credit, self._served)
            self._busy.add(queue)
        queue.requests.append(one)
        self.waiting += 1
        self.most = max(self.most, self.executing + self.waiting)

    def _dispatch(self) -> None:
        while self._busy:
            queue = min(self._busy, key=lambda one: one.credit)
            one = queue.requests[0]
            if not self.is_exempt and self.executing and self.executing + one.width > self.limit:
                return
            self._remove(queue, one)
            self._served = queue.credit
            queue.credit += one.width
            if not one.turn.done():
                self.executing += one.width
                one.turn.set_result(None)

    def _remove(self, queue: Queue, one: Waiting) -> None:
        """May be called for one that has gone already."""
        try:
            queue.requests.remove(one)
        except ValueError:
            return
        self.waiting -= 1
        if not queue.requests:
            self._busy.discard(queue)

    def _give_up(self, queue: Queue, one: Waiting) -> None:
        if not one.turn.done():
            self._remove(queue, one)
            one.turn.set_exception(NoSeat("time-out"))
