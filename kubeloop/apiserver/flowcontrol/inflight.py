"""How many writes may be under way: those beyond wait their turn, and those beyond the queue are told to come back."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

from kubeloop.api import errors


class InFlight:
    """A bounded number of seats and a bounded, fair queue before them."""

    def __init__(self, seats: int, queue: int) -> None:
        self._seats = seats
        self._queue = queue
        self.executing = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def __aenter__(self) -> None:
        if self.executing < self._seats:
            self.executing += 1
            return
        if len(self._waiting) >= self._queue:
            raise errors.too_many_requests("Too many requests, please try again later.", 1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn  # whoever leaves hands its seat over
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.executing -= 1
