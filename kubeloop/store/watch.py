# SPDX-License-Identifier: Apache-2.0
"""Async iterator over a subscription, with a bounded buffer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from kubeloop.store.base import StoreEvent, Subscription
from kubeloop.store.errors import WatchOverflow


class BufferedWatch:
    """Batches waiting for one consumer. The replayed past is in memory anyway and not counted."""

    def __init__(self, limit: int, on_end: Callable[[BufferedWatch], None]) -> None:
        self._limit = limit
        self._on_end = on_end
        self._batches: deque[tuple[Sequence[StoreEvent], int]] = deque()  # each with how much it counts
        self._waiting_events = 0
        self._overflowed = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._cancel: Callable[[], None] | None = None

    def attach(self, subscription: Subscription) -> None:
        """Set the subscription; everything buffered before was replayed."""
        self._cancel = subscription.cancel

    def push(self, events: Sequence[StoreEvent]) -> None:
        """Buffer a batch; overflow cancels the watch."""
        weight = 0 if self._cancel is None else len(events)
        self._batches.append((events, weight))
        self._waiting_events += weight
        if self._waiting_events > self._limit:
            self._overflowed = True
            self.cancel()
        self._wake()

    def end(self) -> None:
        """End the watch; buffered batches can still be read."""
        self._ended = True
        self._on_end(self)
        self._wake()

    def cancel(self) -> None:
        """Cancel the subscription and drop buffered batches."""
        if self._cancel is not None:
            self._cancel()
        self._batches.clear()
        self.end()

    def __aiter__(self) -> AsyncIterator[Sequence[StoreEvent]]:
        return self

    async def __anext__(self) -> Sequence[StoreEvent]:
        while not self._batches:
            if self._overflowed:
                raise WatchOverflow(f"more than {self._limit} events were pending")
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        batch, weight = self._batches.popleft()
        self._waiting_events -= weight
        return batch

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
