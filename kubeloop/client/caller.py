"""Calls in time, in turn, and made again where that is safe; whatever transport carries them.

call ── wait for a turn ──▶ Transport.call ─┬─▶ the object
              ▲                             └─ 429 or 5xx with a time to wait, or a read cut off ─┐
              └────────────────────────────────── wait ◀──────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Final, TypeVar

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, WatchEvent
from kubeloop.client.errors import CallTimeout, ConnectionLost, TransportError
from kubeloop.client.http.deadlines import Deadlines
from kubeloop.client.http.rate_limit import Limiter
from kubeloop.client.http.retries import retry_delay
from kubeloop.client.metrics import ClientMetrics
from kubeloop.client.transport import ClientTransport

T = TypeVar("T")
_TOO_LATE: Final = "{}: no answer within {:g} s"


class Caller:
    """A transport, used with care."""

    def __init__(self, transport: ClientTransport, limiter: Limiter | None, metrics: ClientMetrics) -> None:
        self._transport = transport
        self._limiter = limiter
        self._metrics = metrics
        self._deadlines = Deadlines()

    async def call(self, call: Call) -> Any:
        """One call; its retries and waits share its time."""
        if call.timeout is None:
            return await self._attempts(call, inf)
        deadline = self._deadlines.begin(call.timeout)
        try:
            return await self._attempts(call, deadline.when)
        except asyncio.CancelledError:
            if not deadline.was_cut():
                raise
            what = f"{call.verb} {call.resource.qualified} {call.name}".rstrip()
            raise CallTimeout(_TOO_LATE.format(what, call.timeout)) from None
        finally:
            deadline.end()

    async def document(self, path: str, seconds: float | None) -> Any:
        """What is served at a path that is no resource."""
        try:
            async with asyncio.timeout(seconds):
                return await self._transport.document(path)
        except TimeoutError as error:
            if isinstance(error, TransportError) or seconds is None:
                raise  # a transport told it already
            raise CallTimeout(_TOO_LATE.format(f"get {path}", seconds)) from None

    async def watch(self, call: Call) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """A watch; a server that asks to wait is asked again, as long as it has not begun."""
        attempt, begun = 0, False
        while True:
            attempt += 1
            await self._turn(call)
            try:
                async with _closed_after(self._transport.watch(call)) as batches:
                    async for batch in batches:
                        begun = True
                        yield batch
                return
            except errors.ApiError as error:
                if begun:
                    raise
                delay = self._delay_before_retry(call, error, attempt)
            await asyncio.sleep(delay)

    def is_in_process(self, resource: Resource) -> bool:
        return self._transport.is_in_process(resource)

    def edition(self) -> object | None:
        return self._transport.edition()

    async def stream(self, call: Call) -> AsyncGenerator[bytes, None]:
        """An answer in pieces."""
        await self._turn(call)
        async with _closed_after(self._transport.stream(call)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._transport.close()

    async def _attempts(self, call: Call, deadline: float) -> Any:
        attempt = 0
        while True:
            attempt += 1
            await self._turn(call)
            try:
                return await self._transport.call(call)
            except (errors.ApiError, ConnectionLost) as error:
                delay = self._delay_before_retry(call, error, attempt)
                # The answer says more than a timeout would.
                if asyncio.get_running_loop().time() + delay >= deadline:
                    raise
            await asyncio.sleep(delay)

    def _delay_before_retry(self, call: Call, error: errors.ApiError | ConnectionLost, attempt: int) -> float:
        """How long to wait; raises the error where it is final."""
        delay = retry_delay(call, error, attempt)
        if delay is None:
            raise error
        self._metrics.retry(call.verb, str(error.code) if isinstance(error, errors.ApiError) else "<error>")
        return delay

    async def _turn(self, call: Call) -> None:
        if self._limiter is not None:
            self._metrics.waited(call.verb, await self._limiter.wait())


@asynccontextmanager
async def _closed_after(items: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Whoever stops listening lets go of the connection now, not when the collector comes by."""
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()
