"""get, list and watch."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.handlers.list_objects import list_page
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.list_options import ListOptions, parse_list_options, parse_revision
from kubeloop.apiserver.request.negotiation import PROTOBUF
from kubeloop.apiserver.response.writers import (
    MetadataWatchEncoder,
    ObjectWatchEncoder,
    ProtobufWatchEncoder,
    TableWatchEncoder,
    list_response,
    object_response,
    warning_headers,
)
from kubeloop.apiserver.watch.hub import StreamWatcher, WatchChange, WatchEncoder, WatchTimers
from kubeloop.clock import Clock
from kubeloop.http import Response, ResponseStream, StreamResponse, encode_chunk
from kubeloop.store import CompactedError, StoreEvent

# Upstream ends watches without timeout at a random time between this and twice this.
MIN_WATCH_SECONDS = 1800
_BOOKMARK_SECONDS = 60.0
_FINAL_BOOKMARK_SECONDS = 2.0  # the last bookmark comes this long before the end, so that a client resumes from near it
# Number of events sent to a new watcher before checking that it keeps up.
_SLICE = 200


def get_object(ctx: RequestContext, storage: ResourceStorage) -> Response:
    """Handle GET of one object."""
    target = ctx.target
    if "resourceVersion" in ctx.query:
        try:
            asked = parse_revision(ctx.query.text("resourceVersion"))
        except ValueError as error:
            raise errors.ApiError(str(error)) from None
        if asked > storage.store.revision:
            raise errors.too_large_resource_version(asked, storage.store.revision, 1)
    if "export" in ctx.query:
        raise errors.bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    record = storage.get(target.namespace, target.name)
    if record is None:
        raise errors.not_found(target.resource.group, target.resource.plural, target.name)
    return object_response(ctx, storage, record.value, record.mod_revision)


def list_objects(ctx: RequestContext, storage: ResourceStorage) -> Response:
    """Handle GET of a collection: return one page."""
    options = parse_list_options(ctx.query, storage.memory, watch=False)
    prefix = storage.prefix(_scope(ctx, options))
    return list_response(ctx, storage, list_page(storage.store, prefix, options))


def _scope(ctx: RequestContext, options: ListOptions) -> str:
    """Return the namespace to read: the path's, or the one that the field selector requires."""
    if ctx.target.namespace or not ctx.resource.namespaced:
        return ctx.target.namespace
    return options.selection.namespace or ""


def watch_objects(ctx: RequestContext, storage: ResourceStorage, clock: Clock) -> Response:
    """Handle a watch of a collection, or of one object by name."""
    options = parse_list_options(ctx.query, storage.memory, watch=True)
    if ctx.target.name:  # deprecated path form of watching one object
        options = replace(options, selection=storage.memory.selection("", f"metadata.name={ctx.target.name}"))
    try:
        asked = options.revision()
    except ValueError as error:
        raise errors.ApiError(str(error)) from None
    if ctx.form.convert == "PartialObjectMetadataList":
        raise errors.not_acceptable(("application/json", "application/yaml"))
    timeout = options.timeout_seconds or 0
    if timeout <= 0:
        timeout = int(MIN_WATCH_SECONDS * (1 + clock.random().random()))
    return WatchResponse(ctx, storage, options, asked, timeout)


class WatchResponse(StreamResponse):
    """Response of a watch: initial state or history, then live events, until timeout or close."""

    __slots__ = ("_ctx", "_options", "_revision", "_storage", "_timeout")

    def __init__(
        self, ctx: RequestContext, storage: ResourceStorage, options: ListOptions, revision: int, timeout: int
    ) -> None:
        media = f"{PROTOBUF};stream=watch" if ctx.form.protobuf else "application/json"
        super().__init__(200, content_type=media, headers=warning_headers(ctx.warnings))
        self._ctx = ctx
        self._storage = storage
        self._options = options
        self._revision = revision
        self._timeout = timeout

    async def run(self, stream: ResponseStream) -> None:
        """Stream the watch's events until its timeout or until either side closes."""
        storage, options = self._storage, self._options
        watcher = StreamWatcher(stream, _scope(self._ctx, options), options.selection, self._presenter())
        timers = WatchTimers()
        over = asyncio.get_running_loop().create_future()
        stream.on_close(lambda: over.set_result(None))
        timers.after(self._timeout, stream.close)
        try:
            await self._catch_up(stream, watcher)
            storage.hub.add(watcher)
            if options.bookmarks:
                # A bookmark states that nothing before it is missing, so pending changes are delivered first.
                timers.every(_BOOKMARK_SECONDS, lambda: watcher.bookmark(storage.hub.settle()))
                if self._timeout > _FINAL_BOOKMARK_SECONDS:
                    last = self._timeout - _FINAL_BOOKMARK_SECONDS
                    timers.after(last, lambda: watcher.bookmark(storage.hub.settle()))
            await over
        except CompactedError as error:
            gone = errors.too_old_resource_version(self._revision, error.compact_revision)
            stream.write(encode_chunk(watcher.present.event(b"ERROR", msgspec.json.encode(gone.status()))))
        except errors.ApiError as error:  # an object of the past could not be converted
            stream.write(encode_chunk(watcher.present.event(b"ERROR", msgspec.json.encode(error.status()))))
        finally:
            timers.cancel()
            storage.hub.remove(watcher)

    def _presenter(self) -> WatchEncoder:
        presenter = self._json_presenter()
        return ProtobufWatchEncoder(presenter) if self._ctx.form.protobuf else presenter

    def _json_presenter(self) -> WatchEncoder:
        form = self._ctx.form
        if form.convert == "PartialObjectMetadata":
            return MetadataWatchEncoder(self._storage, form)
        if form.convert == "Table":
            return TableWatchEncoder(self._ctx, self._storage)
        return ObjectWatchEncoder(self._storage)

    async def _catch_up(self, stream: ResponseStream, watcher: StreamWatcher) -> None:
        """Send the past: the current state for resourceVersion 0 or none, the history since any other.

        A slow client gets it in slices, followed by what happened meanwhile, until nothing is left to send: then the
        watcher joins the hub in the same turn of the event loop.
        """
        options, store, hub = self._options, self._storage.store, self._storage.hub
        wants_state = options.initial_events if options.initial_events is not None else not self._revision
        reached = store.revision if wants_state else min(self._revision, store.revision)
        if wants_state:
            state = store.range(self._storage.prefix(watcher.namespace)).records
            changes = [hub.change(StoreEvent(one.mod_revision, one.key, one, None)) for one in state]
            await self._offer(stream, watcher, changes)
        if wants_state and options.initial_events and options.bookmarks:
            watcher.bookmark(reached, initial_events_end=True)
        while reached < store.revision:
            changes = hub.replay(reached)
            reached = store.revision
            await self._offer(stream, watcher, changes)

    async def _offer(self, stream: ResponseStream, watcher: StreamWatcher, changes: list[WatchChange]) -> None:
        if self._storage.conversion is not None:
            from kubeloop.apiserver.apiextensions.conversion.reads import prepare_changes

            await prepare_changes(self._storage.conversion, changes)
        for start in range(0, len(changes), _SLICE):
            watcher.tell(changes[start : start + _SLICE], {})
            await stream.drained()
