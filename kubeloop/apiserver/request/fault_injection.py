# SPDX-License-Identifier: Apache-2.0
"""Fault injection: lets resource calls be delayed, fail, or lose their response, to test clients.

Only resource calls are affected, after authorization; health, metrics and discovery never are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from kubeloop.api import errors
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.http import NoResponse, Response, ResponseStream, StreamResponse
from kubeloop.store import StoreError


class CallFault(Protocol):
    """Faults of one call: it is delayed, then fails, or is executed and its response may be dropped."""

    @property
    def delay(self) -> float:
        """Seconds to wait before the call is served."""

    @property
    def error(self) -> errors.ApiError | None:
        """Error to return instead of serving the call, or None."""

    @property
    def drops_response(self) -> bool:
        """True if the call is served but its response is dropped."""


class FaultInjector(Protocol):
    """Source of injected faults. Resources are qualified by their group, as in `deployments.apps`."""

    def fault_of(self, user: str, verb: str, resource: str, name: str) -> CallFault | None:
        """Return the faults of a call, or None."""

    def event_delay(self, user: str, resource: str) -> float:
        """Return the delay in seconds of the next events of an open watch."""

    def register_watch(self, resource: str, cut: Callable[[], None]) -> Callable[[], None]:
        """Register an open watch that `cut` breaks; returns the function that unregisters it."""

    async def run(self) -> None:
        """Inject faults that no call triggers, until cancelled."""


async def serve_with_faults(
    faults: FaultInjector, ctx: RequestContext, verb: str, serve: Callable[[], Awaitable[Response]]
) -> Response:
    """Serve a call with the faults chosen for it."""
    user, resource = ctx.user.name, ctx.resource.group_resource
    struck = faults.fault_of(user, verb, resource, ctx.target.name)
    if struck is not None:
        if struck.delay:
            await asyncio.sleep(struck.delay)
        if struck.error is not None:
            raise struck.error
        if struck.drops_response:
            with suppress(errors.ApiError, StoreError):
                await serve()
            return NoResponse()
    response = await serve()
    if verb == "watch" and isinstance(response, StreamResponse):
        return _FaultyWatch(response, faults, user, resource)
    return response


class _FaultyWatch(StreamResponse):
    """Watch response whose events may be delayed, and which may be cut."""

    __slots__ = ("_faults", "_inner", "_resource", "_user")

    def __init__(self, inner: StreamResponse, faults: FaultInjector, user: str, resource: str) -> None:
        super().__init__(inner.status, content_type=inner.content_type, headers=inner.headers)
        self._inner = inner
        self._faults = faults
        self._user = user
        self._resource = resource

    async def run(self, stream: ResponseStream) -> None:
        late = _DelayedStream(stream, lambda: self._faults.event_delay(self._user, self._resource))
        stream.on_close(self._faults.register_watch(self._resource, stream.cut_off))
        running = self._inner.run(late)
        if running is not None:
            await running
        late.flush()


class _DelayedStream(ResponseStream):
    """Stream that delays writes; later writes queue behind delayed ones, so the order is kept."""

    __slots__ = ("_delay", "_held", "_inner")

    def __init__(self, inner: ResponseStream, delay: Callable[[], float]) -> None:
        self._inner = inner
        self._delay = delay
        self._held: list[bytes] = []

    @property
    def closed(self) -> bool:  # type: ignore[override]  # the inner stream decides
        return self._inner.closed

    def write(self, data: bytes) -> None:
        if self._held:
            self._held.append(data)
        elif delay := self._delay():
            self._held.append(data)
            asyncio.get_running_loop().call_later(delay, self.flush)
        else:
            self._inner.write(data)

    def flush(self) -> None:
        """Write the delayed data."""
        held, self._held = self._held, []
        for data in held:
            self._inner.write(data)

    async def wait_drained(self) -> None:
        await self._inner.wait_drained()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._inner.on_close(callback)

    def close(self) -> None:
        self.flush()
        self._inner.close()
