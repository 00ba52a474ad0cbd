# SPDX-License-Identifier: Apache-2.0
"""Reflector: keeps a sink equal to a collection on a server: lists once, then watches, and recovers from failures.

`reflector_states` has the states and the transitions after a failure; this module performs each state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kubeloop.api.errors import Expired, NotFound
from kubeloop.api.requests import ListResult, WatchEvent
from kubeloop.clock import Clock
from kubeloop.runtime.informer.list_watch import ListWatch
from kubeloop.runtime.informer.reflector_states import (
    ANY_VERSION,
    NEWEST,
    Asking,
    BackoffState,
    InitialState,
    ListState,
    OutOfOrderError,
    State,
    StreamingListState,
    WatchEndedEarly,
    WatchStalled,
    WatchState,
    is_refusal,
    next_state_after_failure,
)
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.backoff import FIRST, Backoff
from kubeloop.runtime.structured_log import LogMessage

PAGE_SIZE = 500
# A watch that ends this soon without a word is a failure, and must not be reopened in a hot loop.
SHORTEST_WATCH_SECONDS = 1.0

_ACTIONS = {StreamingListState: "list", ListState: "list", WatchState: "watch"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReflectorTimeouts:
    """Timeouts of a reflector, in seconds."""

    page: float = 60.0
    # A server is asked to end each watch after a random time between this and twice this, which spreads the load.
    watch: float = 300.0
    # How long after that time a watch that has not ended counts as dead.
    grace: float = 30.0
    # A server that sends bookmarks does so every minute: after this much silence the watch counts as dead.
    bookmark: float = 150.0
    # The initial state arrives promptly or never; a server without the final bookmark does not support streaming lists.
    stream: float = 60.0
    # After the first failure; the pauses grow from there.
    first_pause: float = FIRST


DEFAULT_TIMEOUTS = ReflectorTimeouts()


class ReflectorStore(Protocol):
    """Receiver that is kept equal to the server."""

    def replace(self, items: Sequence[Any], resource_version: str) -> None:
        """Replace the whole state at a version."""

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Apply events in order; a bookmark only advances the version."""


class Reflector:
    """Reflects one collection into one sink, with one explicit state."""

    def __init__(
        self,
        source: ListWatch,
        sink: ReflectorStore,
        *,
        clock: Clock,
        name: str = "",
        streaming: bool = True,
        patience: ReflectorTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._source = source
        self._sink = sink
        self._clock = clock
        self._name = name
        self._streaming = streaming  # until the server rejects them
        self._timeouts = patience
        self._backoff = Backoff(clock, first=patience.first_pause)
        self._stream: _Stream | None = None
        self._paged = False  # the server pages even what it could serve from memory
        self._sends_bookmarks = False
        self.state: State = InitialState()
        self.last_error: Exception | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self.state = await self.step(self.state)
        finally:
            await self._close()

    async def step(self, state: State) -> State:
        """Perform a state once and return the next one. Failures are transitions, too."""
        match state:
            case InitialState():
                return StreamingListState(ANY_VERSION)
            case BackoffState(seconds, then):
                await asyncio.sleep(seconds)
                return then
        try:
            match state:
                case StreamingListState(at_least):
                    following = await self._stream_list(at_least) if self._streaming else ListState(at_least)
                case ListState(at_least):
                    following = await self._list(at_least)
                case WatchState(version):
                    following = await self._watch(version)
        except Exception as error:  # the reflector must survive failures of the server, the network and the sink
            await self._close()
            return self._failed(state, error)
        if isinstance(following, WatchState):
            self.last_error = None
        return following

    def _failed(self, state: Asking, error: Exception) -> State:
        self.last_error = error
        if isinstance(state, StreamingListState) and is_refusal(error):
            self._streaming = False
        following = next_state_after_failure(state, error, self._backoff.delay)
        # A kind that is not served may be installed later: not worth an error.
        level = logging.INFO if isinstance(error, NotFound) else logging.WARNING
        level = level if isinstance(following, BackoffState) else logging.DEBUG
        pause = f"{following.seconds:.3f}s" if isinstance(following, BackoffState) else None
        log.log(
            level, LogMessage(f"Failed to {_ACTIONS[type(state)]}", resource=self._name, retryAfter=pause, err=error)
        )
        return following

    # Listing

    async def _list(self, at_least: str) -> State:
        # Servers answer "at least this version" from memory only for requests without pages.
        pages = self._paged or at_least in (NEWEST, ANY_VERSION)
        first = await self._page(resource_version=at_least, limit=PAGE_SIZE if pages else 0)
        try:
            items = await self._with_following_pages(first)
        except Expired:
            # The list expired between two pages: fetch it without pages.
            first = await self._page(resource_version=at_least)
            items = list(first.items)
        else:
            self._paged = self._paged or (at_least == ANY_VERSION and bool(first.continue_token))
        self._sink.replace(items, first.resource_version)
        return WatchState(first.resource_version)

    async def _with_following_pages(self, page: ListResult) -> list[Any]:
        items = list(page.items)
        while page.continue_token:
            page = await self._page(limit=PAGE_SIZE, continue_token=page.continue_token)
            items += page.items
        return items

    async def _page(self, *, resource_version: str = "", limit: int = 0, continue_token: str = "") -> ListResult:
        async with asyncio.timeout(self._timeouts.page):
            return await self._source.list(
                resource_version=resource_version, limit=limit, continue_token=continue_token
            )

    # Streaming lists

    async def _stream_list(self, at_least: str) -> State:
        # Like client-go, which asks for the newest state at first where a list would take any.
        stream = await self._open(NEWEST if at_least == ANY_VERSION else at_least, initial_events=True)
        found: dict[ObjectKey, Any] = {}
        while (batch := await stream.next_batch(self._timeouts.stream)) is not None:
            for index, event in enumerate(batch):
                if event.initial_events_end:  # a bookmark: others will come
                    self._sends_bookmarks = True
                    self._sink.replace(list(found.values()), event.resource_version)
                    return self._apply(batch[index + 1 :], event.resource_version)
                _collect(found, event)
        raise WatchEndedEarly("the watch list ended before the initial state was complete")

    # Watching

    async def _watch(self, version: str) -> State:
        stream = self._stream or await self._open(version)
        batch = await stream.next_batch(self._timeouts.bookmark if self._sends_bookmarks else None)
        if batch is None:
            await self._close()
            if stream.was_cut_short():
                raise WatchEndedEarly("the watch ended immediately without an event")
            return WatchState(version)
        return self._apply(batch, version)

    def _apply(self, batch: Sequence[WatchEvent], version: str) -> State:
        if batch:
            _check_order(batch, version)
            self._sink.apply(batch)
            self._sends_bookmarks = self._sends_bookmarks or any(one.type == "BOOKMARK" for one in batch)
            version = batch[-1].resource_version
        return WatchState(version)

    async def _open(self, version: str, initial_events: bool | None = None) -> _Stream:
        await self._close()
        seconds = self._watch_seconds()
        events = self._source.watch(resource_version=version, initial_events=initial_events, timeout_seconds=seconds)
        self._stream = _Stream(events, self._clock, seconds + self._timeouts.grace if seconds else None)
        return self._stream

    def _watch_seconds(self) -> int:
        """Return the watch timeout for the server: 0 (never) if the watch is in process."""
        if self._source.is_in_process:
            return 0
        return max(1, int(self._timeouts.watch * (1 + self._clock.random().random())))

    async def _close(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.close()


class _Stream:
    """Open watch that is abandoned when silent for too long; without a limit it never is."""

    def __init__(self, events: AsyncIterator[Sequence[WatchEvent]], clock: Clock, longest: float | None) -> None:
        self._events = events
        self._clock = clock
        self._opened = clock.monotonic()
        self._longest = longest
        self._has_received = False

    async def next_batch(self, silence: float | None) -> Sequence[WatchEvent] | None:
        """Return the next events; None at the end. Raises `WatchStalled`."""
        patience = self._timeout(silence)
        try:
            async with asyncio.timeout(patience) as limit:
                batch = await anext(self._events)
        except StopAsyncIteration:  # `anext` with a default breaks when it is cancelled, in Python 3.11
            return None
        except TimeoutError:
            if not limit.expired():
                raise  # the transport's own
            raise WatchStalled(f"no event was received for {patience:.0f} s") from None
        self._has_received = self._has_received or bool(batch)
        return batch

    def _timeout(self, silence: float | None) -> float | None:
        if self._longest is None:
            return None
        left = self._opened + self._longest - self._clock.monotonic()
        return left if silence is None else min(left, silence)

    def was_cut_short(self) -> bool:
        return not self._has_received and self._clock.monotonic() - self._opened < SHORTEST_WATCH_SECONDS

    async def close(self) -> None:
        if isinstance(self._events, AsyncGenerator):
            await self._events.aclose()


def _collect(found: dict[ObjectKey, Any], event: WatchEvent) -> None:
    if event.type == "BOOKMARK":
        return
    key = key_of(event.object)
    if event.type == "DELETED":
        found.pop(key, None)
    else:
        found[key] = event.object


def _check_order(batch: Sequence[WatchEvent], version: str) -> None:
    """Check that versions only grow. Versions that are not numbers (some extension servers) are not checked."""
    if not version.isdigit() or version == ANY_VERSION:
        return
    last = int(version)
    for event in batch:
        if not event.resource_version.isdigit():
            return
        if (number := int(event.resource_version)) < last:
            raise OutOfOrderError(f"received resourceVersion {number} after {last}")
        last = number
