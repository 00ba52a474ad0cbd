"""Calls that go wrong on purpose, so that those who make them can be tried: a server may be handed what decides it.

Only calls on resources are hit, once it is known that they may be made: health, metrics and discovery never are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from kubeloop.api import errors
from kubeloop.apiserver.request.context import Context
from kubeloop.http import NoResponse, Response, Stream, StreamResponse
from kubeloop.store import StoreError


class Struck(Protocol):
    """What happens to one call: it waits, then it fails, or is carried out and perhaps never answered."""

    @property
    def delay(self) -> float: ...
    @property
    def error(self) -> errors.ApiError | None: ...
    @property
    def loses_answer(self) -> bool: ...


class Faults(Protocol):
    """Who decides. A resource is told with its group behind it, as in `deployments.apps`."""

    def strike(self, user: str, verb: str, resource: str, name: str) -> Struck | None:
        """What happens to a call, if anything."""

    def delay_of_event(self, user: str, resource: str) -> float:
        """How long the next events of an open watch are held back."""

    def watch_opened(self, resource: str, cut: Callable[[], None]) -> Callable[[], None]:
        """Somebody watches, and may be cut off; what is returned tells that they no longer do."""

    async def run(self) -> None:
        """What happens by itself, until it is cancelled."""


async def served_faultily(
    faults: Faults, ctx: Context, verb: str, serve: Callable[[], Awaitable[Response]]
) -> Response:
    """Serve a call, unless it is hit."""
    user, resource = ctx.user.name, ctx.resource.qualified
    struck = faults.strike(user, verb, resource, ctx.target.name)
    if struck is not None:
        if struck.delay:
            await asyncio.sleep(struck.delay)
        if struck.error is not None:
            raise struck.error
        if struck.loses_answer:
            with suppress(errors.ApiError, StoreError):
                await serve()
            return NoResponse()
    response = await serve()
    if verb == "watch" and isinstance(response, StreamResponse):
        return _FaultyWatch(response, faults, user, resource)
    return response


class _FaultyWatch(StreamResponse):
    """A watch whose events may be late, and which may break."""

    __slots__ = ("_faults", "_inner", "_resource", "_user")

    def __init__(self, inner: StreamResponse, faults: Faults, user: str, resource: str) -> None:
        super().__init__(inner.status, content_type=inner.content_type, headers=inner.headers)
        self._inner = inner
        self._faults = faults
        self._user = user
        self._resource = resource

    async def run(self, stream: Stream) -> None:
        late = _LateStream(stream, lambda: self._faults.delay_of_event(self._user, self._resource))
        stream.on_close(self._faults.watch_opened(self._resource, stream.cut_off))
        running = self._inner.run(late)
        if running is not None:
            await running
        late.send()


class _LateStream(Stream):
    """Holds back what is written for a while, and all that comes behind it: the order stays."""

    __slots__ = ("_delay", "_held", "_inner")

    def __init__(self, inner: Stream, delay: Callable[[], float]) -> None:
        self._inner = inner
        self._delay = delay
        self._held: list[bytes] = []

    @property
    def closed(self) -> bool:  # type: ignore[override]  # the other stream knows
        return self._inner.closed

    def write(self, data: bytes) -> None:
        if self._held:
            self._held.append(data)
        elif delay := self._delay():
            self._held.append(data)
            asyncio.get_running_loop().call_later(delay, self.send)
        else:
            self._inner.write(data)

    def send(self) -> None:
        """Let go of what was held back."""
        held, self._held = self._held, []
        for data in held:
            self._inner.write(data)

    async def drained(self) -> None:
        await self._inner.drained()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._inner.on_close(callback)

    def close(self) -> None:
        self.send()
        self._inner.close()
