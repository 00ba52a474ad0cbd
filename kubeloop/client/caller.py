# SPDX-License-Identifier: Apache-2.0
"""Rate limit, deadline and safe retries of calls, over any transport.

call ── wait for the rate limiter ──▶ Transport.call ─┬─▶ the object
              ▲                                       └─ 429 or 5xx with Retry-After, or a read cut off ─┐
              └────────────────────────────────── wait ◀─────────────────────────────────────────────────┘
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
from kubeloop.client.metrics import ClientMetrics
from kubeloop.client.transport import ClientTransport, commit_together

T = TypeVar("T")
_TOO_LATE: Final = "{}: no response within {:g} s"
MAX_RETRIES = 10
# How long client-go waits before it tries again after a connection broke under a read.
_LOST_SECONDS = 1.0


class RetryingCaller:
    """Wraps a transport with a rate limiter, deadlines and retries."""

    def __init__(self, transport: ClientTransport, limiter: Limiter | None, metrics: ClientMetrics) -> None:
        self._transport = transport
        self._limiter = limiter
        self._metrics = metrics
        self._deadlines = Deadlines()

    async def call(self, call: Call) -> Any:
        """Make one call; its retries and waits share its timeout."""
        if call.timeout is None:
            return await self._call_with_retries(call, inf)
        deadline = self._deadlines.begin(call.timeout)
        try:
            if self._limiter is not None:
                return await self._call_with_retries(call, deadline.when)
            try:  # here, because nearly all calls need neither a wait nor a second attempt
                return await self._transport.call(call)
            except (errors.ApiError, ConnectionLost) as error:
                await self._wait_before_retry(call, error, 1, deadline.when)
            return await self._call_with_retries(call, deadline.when, 1)
        except asyncio.CancelledError:
            if not deadline.is_own_cancellation():
                raise
            what = f"{call.verb} {call.resource.group_resource} {call.name}".rstrip()
            raise CallTimeout(_TOO_LATE.format(what, call.timeout)) from None
        finally:
            deadline.end()

    async def commit_together(self, call: Call, names: Sequence[str]) -> list[str]:
        """Make a write for several objects if it needs no wait but a common commit; a rate limiter excludes that.

        Returns the resourceVersion of each written object, and an empty text for each other one. There are no retries.
        """
        if call.timeout is None or self._limiter is not None:
            return [""] * len(names)
        deadline = self._deadlines.begin(call.timeout)
        try:
            return await commit_together(self._transport, call, names)
        except asyncio.CancelledError:
            if not deadline.is_own_cancellation():
                raise
            return [""] * len(names)
        finally:
            deadline.end()

    async def document(self, path: str, seconds: float | None) -> Any:
        """Return the document at a non-resource path."""
        try:
            async with asyncio.timeout(seconds):
                return await self._transport.document(path)
        except TimeoutError as error:
            if isinstance(error, TransportError) or seconds is None:
                raise  # raised by the transport
            raise CallTimeout(_TOO_LATE.format(f"get {path}", seconds)) from None

    async def watch(self, call: Call) -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Yield the batches of a watch; retries while the server asks to wait and the watch has not begun."""
        attempt, begun = 0, False
        while True:
            attempt += 1
            await self._wait_rate_limit(call)
            try:
                async with _closing(self._transport.watch(call)) as batches:
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
        """Return True if the transport serves watches of the resource within this process."""
        return self._transport.is_in_process(resource)

    def discovery_version(self) -> object | None:
        """Return the transport's marker of the set of served kinds; None if it has none."""
        return self._transport.discovery_version()

    async def stream(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Yield a response body in pieces."""
        await self._wait_rate_limit(call)
        async with _closing(self._transport.stream(call)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    async def _call_with_retries(self, call: Call, deadline: float, attempt: int = 0) -> Any:
        while True:
            attempt += 1
            await self._wait_rate_limit(call)
            try:
                return await self._transport.call(call)
            except (errors.ApiError, ConnectionLost) as error:
                await self._wait_before_retry(call, error, attempt, deadline)

    async def _wait_before_retry(
        self, call: Call, error: errors.ApiError | ConnectionLost, attempt: int, deadline: float
    ) -> None:
        """Wait until the next attempt; raises the error if it is final, or if the deadline is nearer."""
        delay = self._delay_before_retry(call, error, attempt)
        if asyncio.get_running_loop().time() + delay >= deadline:
            raise error  # the server's error is more specific than a timeout
        await asyncio.sleep(delay)

    def _delay_before_retry(self, call: Call, error: errors.ApiError | ConnectionLost, attempt: int) -> float:
        """Return the seconds to wait before the next attempt; raises the error if it is final."""
        delay = retry_delay(call, error, attempt)
        if delay is None:
            raise error
        self._metrics.retry(call.verb, str(error.code) if isinstance(error, errors.ApiError) else "<error>")
        return delay

    async def _wait_rate_limit(self, call: Call) -> None:
        if self._limiter is not None:
            self._metrics.rate_limiter_wait(call.verb, await self._limiter.wait())


@asynccontextmanager
async def _closing(items: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Close the generator on exit, so that its connection is released without waiting for garbage collection."""
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


def retry_delay(call: Call, error: Exception, attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt by client-go's rules, None if the error is final.

    `attempt` counts from 1. A server that answers 429 or 5xx with Retry-After has done nothing, whatever the verb. A
    connection that broke may have carried a write, so only reads are repeated then.
    """
    if attempt > MAX_RETRIES:
        return None
    if isinstance(error, errors.ApiError):
        asked = error.retry_after_seconds
        return float(asked) if asked > 0 and (error.code == 429 or error.code >= 500) else None
    if isinstance(error, ConnectionLost) and call.verb in ("get", "list"):
        return _LOST_SECONDS
    return None
