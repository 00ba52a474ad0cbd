# SPDX-License-Identifier: Apache-2.0
"""Limit of concurrent writes, with a bounded queue; further requests get 429."""

from __future__ import annotations

import asyncio
from collections import deque

from kubeloop.api import errors


class InFlightLimiter:
    """Bounded number of seats with a bounded FIFO queue; one is held from `try_enter` or `enter` until `leave`."""

    def __init__(self, seats: int, queue: int) -> None:
        self._seats = seats
        self._queue = queue
        self.executing = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Number of queued requests."""
        return len(self._waiting)

    def try_enter(self) -> bool:
        """Acquire a seat if one is free; returns False if not."""
        if self.executing >= self._seats:
            return False
        self.executing += 1
        return True

    async def enter(self) -> float:
        """Wait for a seat after none was free; returns the seconds of waiting that count. Raises TooManyRequests."""
        if len(self._waiting) >= self._queue:
            raise errors.too_many_requests("Too many requests, please try again later.", 1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn  # a finishing request passes its seat on
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise
        return 0.0

    def leave(self) -> None:
        """Release a seat, or pass it on to the next in the queue."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.executing -= 1
