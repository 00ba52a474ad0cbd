# SPDX-License-Identifier: Apache-2.0
"""Fence: lets a leader write only while no other process can be leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, WatchEvent
from kubeloop.client.transport import ClientTransport
from kubeloop.clock import Clock

_READS = ("get", "list", "watch")


class LeadershipLost(Exception):
    """Error for writes after another process may have become leader."""


class Fence:
    """Deadline on the process's own clock; a process that was suspended meanwhile finds it closed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic()
        self._guarded: set[asyncio.Timeout] = set()

    @property
    def is_open(self) -> bool:
        """True before the deadline."""
        return self._clock.monotonic() < self._until

    def seconds_left(self) -> float:
        """Return the seconds until the fence closes."""
        return max(0.0, self._until - self._clock.monotonic())

    def open_until(self, moment: float) -> None:
        """Move the deadline, also for blocks that run in `open`."""
        self._until = moment
        for limit in self._guarded:
            limit.reschedule(self._end())

    def close(self) -> None:
        """Close the fence now."""
        self.open_until(self._clock.monotonic())

    def check(self) -> None:
        """Raise `LeadershipLost` unless this process certainly leads."""
        if not self.is_open:
            raise LeadershipLost("the lease is not held, or could not be renewed in time")

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Run a block that ends with `LeadershipLost` as soon as the fence closes."""
        self.check()
        try:
            async with asyncio.timeout_at(self._end()) as limit:
                self._guarded.add(limit)
                try:
                    yield
                finally:
                    self._guarded.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise LeadershipLost("the lease was lost during a write, which may have been executed") from None

    def _end(self) -> float:
        return asyncio.get_running_loop().time() + self.seconds_left()


class FencedTransport:
    """Transport whose writes pass only while the fence is open; reads always pass."""

    def __init__(self, transport: ClientTransport, fence: Fence) -> None:
        self._transport = transport
        self._fence = fence

    async def call(self, call: Call) -> Any:
        """Make a call; a write fails with `LeadershipLost` when the fence closes."""
        if call.verb in _READS:
            return await self._transport.call(call)
        # A process can be stopped between this check and the moment in which a connection is there to write to.
        call = msgspec.structs.replace(call, guard=self._fence.check)
        async with self._fence.guard():
            return await self._transport.call(call)

    def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Watch through the wrapped transport."""
        return self._transport.watch(call)

    def is_in_process(self, resource: Resource) -> bool:
        """Return the wrapped transport's answer."""
        return self._transport.is_in_process(resource)

    def discovery_version(self) -> object | None:
        """Return the wrapped transport's edition."""
        return self._transport.discovery_version()

    async def document(self, path: str) -> Any:
        """Return the wrapped transport's document."""
        return await self._transport.document(path)

    def stream(self, call: Call) -> AsyncIterator[bytes]:
        """Stream through the wrapped transport."""
        return self._transport.stream(call)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()
