# SPDX-License-Identifier: Apache-2.0
"""watch: over a chunked response, or over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.handlers.read import namespace_to_read
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.list_options import ListOptions
from kubeloop.apiserver.request.negotiation import PROTOBUF
from kubeloop.apiserver.response.documents import warning_headers
from kubeloop.apiserver.response.writers import (
    MetadataWatchEncoder,
    ObjectWatchEncoder,
    ProtobufWatchEncoder,
    TableWatchEncoder,
)
from kubeloop.apiserver.watch.hub import FrameSink, StreamWatcher, WatchChange, WatchEncoder, WatchTimers
from kubeloop.clock import Clock
from kubeloop.http import Response, ResponseStream, StreamResponse
from kubeloop.store import CompactedError, StoreEvent

_UNLIMITED_SECONDS = 2**31
_BOOKMARK_SECONDS = 60.0
_FINAL_BOOKMARK_SECONDS = 2.0  # the last bookmark comes this long before the end, so that a client resumes from near it
# Number of events sent to a new watcher before checking that it keeps up.
_SLICE = 200
_STREAMED = ("application/json;stream=watch", f"{PROTOBUF};stream=watch")


class WatchStream(FrameSink, Protocol):
    """Connection of one watch."""

    async def wait_drained(self) -> None:
        """Wait until the client has read enough; returns at once if closed."""

    def on_close(self, callback: Callable[[], None]) -> None:
        """Register a callback, called once when the stream ends, by either side."""


def watch_objects(
    ctx: RequestContext, storage: ResourceStorage, options: ListOptions, clock: Clock, min_seconds: int
) -> Response:
    """Handle a watch of a collection, or of one object by name."""
    if ctx.target.name:  # deprecated path form of watching one object
        selector = storage.field_cache.parse("", f"metadata.name={ctx.target.name}")
        options = msgspec.structs.replace(options, selector=selector)
    try:
        options.revision()
    except ValueError as error:
        raise errors.ApiError(str(error)) from None
    if ctx.format.convert == "PartialObjectMetadataList":
        raise errors.not_acceptable(("application/json", "application/yaml"))
    if ctx.format.yaml:
        raise errors.not_acceptable(_STREAMED)
    timeout = options.timeout_seconds or 0
    if timeout <= 0:
        # A random time between the minimum and twice the minimum; never, if that is 0.
        timeout = int(min_seconds * (1 + clock.random().random())) or _UNLIMITED_SECONDS
    encoder = _json_encoder(ctx, storage)
    if ctx.request.upgrade and ctx.request.headers.get("upgrade", "").lower() == "websocket":
        from kubeloop.apiserver.watch.websocket import WebSocketWatchEncoder, websocket_watch_response  # rarely used

        framed = WebSocketWatchEncoder(encoder, is_protobuf=ctx.format.protobuf)
        return websocket_watch_response(ctx.request.headers, WatchSession(ctx, storage, options, timeout, framed).run)
    framed_in_chunks = ProtobufWatchEncoder(encoder) if ctx.format.protobuf else encoder
    return WatchResponse(ctx, WatchSession(ctx, storage, options, timeout, framed_in_chunks))


def _json_encoder(ctx: RequestContext, storage: ResourceStorage) -> WatchEncoder:
    if ctx.format.convert == "PartialObjectMetadata":
        return MetadataWatchEncoder(storage, ctx.format)
    if ctx.format.convert == "Table":
        return TableWatchEncoder(ctx, storage)
    return ObjectWatchEncoder(storage)


class WatchResponse(StreamResponse):
    """Chunked response of a watch."""

    __slots__ = ("_session",)

    def __init__(self, ctx: RequestContext, session: WatchSession) -> None:
        media = f"{PROTOBUF};stream=watch" if ctx.format.protobuf else "application/json"
        super().__init__(200, content_type=media, headers=warning_headers(ctx.warnings))
        self._session = session

    async def run(self, stream: ResponseStream) -> None:
        """Stream the watch's events until its timeout or until either side closes."""
        await self._session.run(stream)


class WatchSession:
    """One watch: initial state or history, then live events, until timeout or close."""

    __slots__ = ("_ctx", "_encoder", "_options", "_storage", "timeout")

    def __init__(
        self, ctx: RequestContext, storage: ResourceStorage, options: ListOptions, timeout: int, encoder: WatchEncoder
    ) -> None:
        self._ctx = ctx
        self._storage = storage
        self._options = options
        self.timeout = timeout
        self._encoder = encoder

    async def run(self, stream: WatchStream) -> None:
        """Write the watch's events to a stream until the timeout or until either side closes."""
        storage, options = self._storage, self._options
        watcher = StreamWatcher(
            stream, namespace_to_read(self._ctx, options), options.selector, self._encoder, storage.watch_events
        )
        timers = WatchTimers()
        over = asyncio.get_running_loop().create_future()
        stream.on_close(lambda: over.set_result(None))
        timers.after(self.timeout, stream.close)
        try:
            await self._catch_up(stream, watcher)
            storage.hub.add(watcher)
            if options.bookmarks:
                # A bookmark states that nothing before it is missing, so pending changes are delivered first.
                timers.every(_BOOKMARK_SECONDS, lambda: watcher.bookmark(storage.hub.flush()))
                if self.timeout > _FINAL_BOOKMARK_SECONDS:
                    last = self.timeout - _FINAL_BOOKMARK_SECONDS
                    timers.after(last, lambda: watcher.bookmark(storage.hub.flush()))
            await over
        except CompactedError as error:
            gone = errors.too_old_resource_version(options.revision(), error.compact_revision)
            watcher.error(msgspec.json.encode(gone.status()))
        except errors.ApiError as error:  # an object of the past could not be converted
            watcher.error(msgspec.json.encode(error.status()))
        finally:
            timers.cancel()
            storage.hub.remove(watcher)

    async def _catch_up(self, stream: WatchStream, watcher: StreamWatcher) -> None:
        """Send the past: the current state for resourceVersion 0 or none, the history since any other.

        Without a version, a watch that declines initial events begins now.

        A slow client gets it in slices, followed by what happened meanwhile, until nothing is left to send: then the
        watcher joins the hub in the same turn of the event loop.
        """
        options, store, hub = self._options, self._storage.store, self._storage.hub
        asked = options.revision()
        wants_state = options.initial_events if options.initial_events is not None else not asked
        reached = min(asked, store.revision) if asked and not wants_state else store.revision
        if wants_state:
            state = store.range(self._storage.prefix(watcher.namespace)).records
            changes = [hub.change_of(StoreEvent(one.mod_revision, one.key, one, None)) for one in state]
            await self._send_slices(stream, watcher, changes)
        if wants_state and options.initial_events and options.bookmarks:
            watcher.bookmark(reached, initial_events_end=True)
        while reached < store.revision:
            changes = hub.replay(reached)
            reached = store.revision
            await self._send_slices(stream, watcher, changes)

    async def _send_slices(self, stream: WatchStream, watcher: StreamWatcher, changes: list[WatchChange]) -> None:
        if self._storage.conversion is not None:
            from kubeloop.apiserver.apiextensions.conversion.reads import prepare_changes

            await prepare_changes(self._storage.conversion, changes)
        for start in range(0, len(changes), _SLICE):
            self._storage.hub.deliver_past(watcher, changes[start : start + _SLICE])
            await stream.wait_drained()
            await asyncio.sleep(0)  # let the event loop run even if the client keeps up
