# SPDX-License-Identifier: Apache-2.0
"""In-process transport: calls take the same steps as over HTTP, without serialization.

Readers share one decoded struct per stored record with all others in the process. A write copies its object once,
because defaulting and admission complete an object in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, ListResult, WatchEvent
from kubeloop.api.responses import decode_response
from kubeloop.api.struct_patch import StructPatch
from kubeloop.api.unstructured import PartialObjectMetadata, body_document
from kubeloop.apiserver.app import ApiServer, store_error_to_api_error
from kubeloop.apiserver.authorization import ADMINISTRATORS
from kubeloop.apiserver.handlers.list_objects import list_page
from kubeloop.apiserver.inprocess.stream import pieces_of
from kubeloop.apiserver.registry.cause_journal import WriteCause
from kubeloop.apiserver.registry.consistency import wait_for_request_revision
from kubeloop.apiserver.registry.lease_renewal_cache import is_repeatable_renewal
from kubeloop.apiserver.registry.storage import ResourceStorage, with_revision
from kubeloop.apiserver.registry.store import WriteResult
from kubeloop.apiserver.request.context import InProcessRequest, RequestContext, User
from kubeloop.apiserver.request.list_options import ListOptions, parse_list_options, parse_revision
from kubeloop.apiserver.request.negotiation import PLAIN, ResponseFormat
from kubeloop.apiserver.request.query import NO_OPTIONS, Query
from kubeloop.apiserver.request.routing import PageNotFound, Target
from kubeloop.apiserver.response.writers import ObjectResponse
from kubeloop.apiserver.watch.counters import EncodedBatch, WatchEventCounters
from kubeloop.apiserver.watch.hub import WatchChange, WatchSubscriber, WatchTimers
from kubeloop.http import Request, Response, StreamResponse
from kubeloop.store import CompactedError, Record, StoreError, StoreEvent

if TYPE_CHECKING:
    from kubeloop.apiserver.aggregator.remote import RemoteAPIServer
    from kubeloop.apiserver.metrics.requests import RequestSeries
    from kubeloop.apiserver.registry.storage import Conversion

_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_READS = ("get", "list")
_SUCCESS = {"create": 201}
_METADATA = ResponseFormat(convert="PartialObjectMetadata")
_CAUSE = "kubeloop-cause"
# A watcher with this many unread events is cut, as a slow HTTP client is.
_BACKLOG = 100_000


class InProcessTransport:
    """Transport that calls the server directly as a given user."""

    def __init__(self, server: ApiServer, user: User) -> None:
        self._server = server
        self._user = user
        self._renewals: RequestSeries | None = None  # series of the successful renewals of `commit_together`

    async def call(self, call: Call) -> Any:
        """Perform a call; returns objects instead of bytes, and raises the errors that HTTP would return."""
        if call.guard is not None:
            call.guard()
        server = self._server
        remote = self._remote(call) if server.aggregator.remotes else None
        target, query, waiting = self._authorize(call, remote)
        if waiting is not None:
            await waiting
        if remote is not None:
            from kubeloop.apiserver.aggregator.local_transport import call_remote

            return await call_remote(remote, self._user, call)
        verb, started = call.verb, server.clock.monotonic()
        ctx = self._context(call, target, query)
        try:
            if verb in _READS and not call.subresource and server.is_stored(call.resource):
                result = await self._read(call, ctx)
            else:
                ctx.wants_object = not call.metadata_only
                response = await server.serve(ctx, verb)
                if isinstance(response, ObjectResponse):
                    result = self._result_of_write(response.written, call)
                else:
                    result = decode_response(_body_of(response), call)
        except errors.ApiError as error:
            server.metrics.requests.observe_call(ctx, verb, error.code, server.clock.monotonic() - started)
            raise
        code = _SUCCESS.get(verb, 200)
        server.metrics.requests.observe_call(ctx, verb, code, server.clock.monotonic() - started)
        if ctx.struct_patch is not None and is_repeatable_renewal(call):
            server.object_store.lease_renewal_cache.put(server.registry, call, self._user, result)
        return result

    async def commit_together(self, call: Call, names: Sequence[str]) -> list[str]:
        """Make repeated renewals of leases in one commit; returns their resourceVersions, "" for other objects."""
        server = self._server
        is_allowed = is_repeatable_renewal(call) and ADMINISTRATORS in self._user.groups
        if not is_allowed or (server.aggregator.remotes and self._remote(call) is not None):
            return [""] * len(names)
        started = server.clock.monotonic()
        renewals = server.object_store.lease_renewal_cache.renew(server.registry, call, names, self._user)
        if renewals is None:
            return [""] * len(names)
        server.metrics.authorization.allowed.fast += len(names) - renewals.written.count(None)
        written = await renewals.commit(partial(self._count_failed_renewal, call))
        durable = [one for one in written if one is not None]
        if durable:
            self._record_renewals(call, durable, renewals.now, server.clock.monotonic() - started)
        return ["" if one is None else str(one.revision) for one in written]

    def _count_failed_renewal(self, call: Call, error: StoreError) -> None:
        self._server.metrics.storage.count_error(call.verb, call.resource)
        self._renewal_series(call, store_error_to_api_error(error).code).observe(0.0, 0.0)

    def _record_renewals(self, call: Call, written: Sequence[StoreEvent], now: datetime, seconds: float) -> None:
        """Count durable renewals of one commit, and add them to the journal of causes."""
        server, user = self._server, self._user.name
        if self._renewals is None:
            self._renewals = self._renewal_series(call, 200)
        updates, causes = server.registry.storage_of(call.resource).writes.update, server.object_store.causes
        for event in written:
            updates.observe(seconds)
            self._renewals.observe(seconds, 0.0)
            causes.append(WriteCause(event.revision, event.key, now, call.verb, user, call.user_agent, call.cause))

    def _renewal_series(self, call: Call, code: int) -> RequestSeries:
        """Return the series in which renewals with this result are counted."""
        target = Target(call.resource, call.verb, call.namespace, call.name, "")
        ctx = self._context(call, target, Query.from_options(call.options))
        return self._server.metrics.requests.series_of_calls(ctx, call.verb, code)

    async def _read(self, call: Call, ctx: InProcessRequest) -> Any:
        """Get or list stored objects as structs."""
        storage = self._server.registry.storage_of(call.resource)
        if storage.store.is_shared:
            await _wait_caught_up(storage, call.verb, ctx.query)
        if storage.conversion is not None:
            return await self._read_converted(ctx, storage, storage.conversion, call)
        if call.verb == "get":
            return self._get(ctx, storage, call)
        return await self._list(ctx, storage, call)

    async def _read_converted(
        self, ctx: RequestContext, storage: ResourceStorage, conversion: Conversion, call: Call
    ) -> Any:
        from kubeloop.apiserver.apiextensions.conversion.reads import read_converted

        async def read() -> Any:
            if call.verb == "get":
                return self._get(ctx, storage, call)
            return await self._list(ctx, storage, call)

        return await read_converted(storage, conversion, call.namespace, call.name, read)

    def _result_of_write(self, written: WriteResult, call: Call) -> Any:
        """Return the result of a write: the shared struct, unless the object has changed since."""
        storage = self._server.registry.storage_of(call.resource)
        record = storage.store.get(written.key) if written.key else None
        if record is not None and record.mod_revision == written.revision:
            return storage.shared_struct(record)
        if isinstance(written.obj, msgspec.Struct) and not storage.serializer.converts:
            return with_revision(written.obj, written.revision)
        return decode_response(storage.serializer.object(written.value, written.revision), call)

    def discovery_version(self) -> object | None:
        """Return an object that identifies the current discovery documents; None if other servers provide some."""
        return None if self._server.aggregator.remotes else self._server.nonresource.discovery_version

    async def document(self, path: str) -> Any:
        """Return the document at a non-resource path as plain data."""
        waiting = self._server.authorize_path(self._user, "GET", path)
        if waiting is not None:
            await waiting
        remote = self._server.aggregator.remote_for(path)
        if remote is not None:
            from kubeloop.apiserver.aggregator.local_transport import document_of

            return await document_of(remote, self._user, path)
        try:
            response = self._server.nonresource.handle(Request("GET", path))
        except PageNotFound:
            raise errors.generic_server_response(404) from None
        return msgspec.json.decode(_body_of(response))

    async def stream(self, call: Call) -> AsyncIterator[bytes]:
        """Yield a response's body in pieces, such as a log's."""
        remote = self._remote(call)
        target, query, waiting = self._authorize(call, remote)
        if waiting is not None:
            await waiting
        if remote is not None:
            from kubeloop.apiserver.aggregator.local_transport import stream_remote

            async with aclosing(stream_remote(remote, self._user, call)) as passed_on:
                async for piece in passed_on:
                    yield piece
            return
        started, ctx = self._server.clock.monotonic(), self._context(call, target, query)
        response = await self._server.serve(ctx, call.verb)
        if isinstance(response, StreamResponse):
            response = self._server.metrics.requests.observe_stream(
                ctx, call.verb, response, lambda: self._server.clock.monotonic() - started
            )
            async with aclosing(pieces_of(response)) as pieces:
                async for piece in pieces:
                    yield piece
        elif body := _body_of(response):
            yield body

    async def close(self) -> None:
        """Do nothing: the transport holds no resources and does not stop the server."""

    def _remote(self, call: Call) -> RemoteAPIServer | None:
        """Return the aggregated server that answers the call, or None for this server."""
        remotes = self._server.aggregator.remotes
        return remotes.get((call.resource.group, call.resource.version)) if remotes else None

    def _authorize(self, call: Call, remote: RemoteAPIServer | None) -> tuple[Target, Query, Awaitable[None] | None]:
        """Authorize a call, and return its target, its query, and what must be awaited first, if anything.

        Raises the errors of router and authorizer.
        """
        resource, verb = call.resource, call.verb
        if remote is None:
            resource = self._server.resolve_resource(resource)
        target = Target(resource, verb, call.namespace, call.name, call.subresource)
        query = Query.from_options(call.options)
        return target, query, self._server.authorize(self._user, _METHODS[verb], target, verb, query)

    def _context(self, call: Call, target: Target, query: Query) -> InProcessRequest:
        """Return the context of an authorized call; raises the errors of the router."""
        resource, verb = target.resource, call.verb
        if call.subresource and call.subresource not in resource.by_name:
            raise errors.generic_server_response(404)
        if verb not in (resource.by_name[call.subresource].verbs if call.subresource else resource.verbs):
            raise errors.generic_server_response(405)
        headers = {"user-agent": call.user_agent, "content-type": call.patch_type or "application/json"}
        if call.cause:
            headers[_CAUSE] = call.cause
        request, body = Request(_METHODS[verb], "", "", headers), call.body
        overlay = body if isinstance(body, StructPatch) else None
        if body is not None and overlay is None:
            request.body = body if isinstance(body, bytes) else codec.encode(body_document(body))
        form = _METADATA if call.metadata_only else PLAIN
        ctx = InProcessRequest(request, target, query, self._user, form, self._server.clock.now)
        if query is not NO_OPTIONS:
            ctx.dry_run = bool(query.text("dryRun"))
        ctx.struct_patch = overlay
        ctx.has_typed_body = isinstance(body, msgspec.Struct) and type(body) is resource.type
        return ctx

    def _get(self, ctx: RequestContext, storage: ResourceStorage, call: Call) -> Any:
        if "resourceVersion" in ctx.query:
            asked = _revision(lambda: parse_revision(ctx.query.text("resourceVersion")))
            if asked > storage.store.revision:
                raise errors.too_large_resource_version(asked, storage.store.revision, 1)
        record = storage.get(call.namespace, call.name)
        if record is None:
            raise errors.not_found(call.resource.group, call.resource.plural, call.name)
        obj = storage.shared_struct(record)
        return _partial(obj) if call.metadata_only else obj

    async def _list(self, ctx: RequestContext, storage: ResourceStorage, call: Call) -> ListResult:
        options = parse_list_options(ctx.query, storage.field_cache, watch=False)
        page = await list_page(storage.store, storage.prefix(call.namespace), options, storage.lists)
        objects = map(storage.shared_struct, page.records)
        return ListResult(
            items=tuple(map(_partial, objects) if call.metadata_only else objects),
            resource_version=str(page.revision),
            continue_token=page.continue_token,
            remaining=page.remaining,
        )

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Yield batches of events until the watch's timeout or until the server stops.

        The only bookmark is the one after the initial events: others serve to keep connections alive and to resume lost
        ones, which don't exist here.
        """
        remote = self._remote(call)
        target, query, waiting = self._authorize(call, remote)
        if waiting is not None:
            await waiting
        if remote is not None:
            from kubeloop.apiserver.aggregator.local_transport import watch_remote

            async with aclosing(watch_remote(remote, self._user, call)) as batches:
                async for passed_on in batches:
                    yield passed_on
            return
        ctx = self._context(call, target, query)
        storage = self._server.registry.storage_of(call.resource)
        options = parse_list_options(ctx.query, storage.field_cache, watch=True)
        if storage.store.is_shared:
            await _wait_caught_up(storage, "watch", ctx.query)
        watcher = InProcessWatcher(storage, call.namespace, options.selector, call.metadata_only)
        if storage.conversion is not None:
            from kubeloop.apiserver.apiextensions.conversion.reads import prepare_past

            await prepare_past(storage, storage.conversion, _revision(options.revision))
        _catch_up(storage, watcher, options)
        storage.hub.add(watcher)
        end = self._server.metrics.requests.begin_long_running("watch", ctx.target)
        started = self._server.clock.monotonic()
        timers = WatchTimers()
        if options.timeout_seconds:
            timers.after(options.timeout_seconds, watcher.close)
        try:
            while (batch := await watcher.next_batch()) is not None:
                yield batch
        finally:
            timers.cancel()
            storage.hub.remove(watcher)
            end()
            server = self._server
            server.metrics.requests.observe_call(ctx, call.verb, 200, server.clock.monotonic() - started)

    def is_in_process(self, resource: Resource) -> bool:
        """Return True if this server, and no aggregated one, serves the resource."""
        return (resource.group, resource.version) not in self._server.aggregator.remotes


async def _wait_caught_up(storage: ResourceStorage, verb: str, query: Query) -> None:
    try:
        await wait_for_request_revision(storage.store, verb, query)
    except StoreError as error:
        raise store_error_to_api_error(error) from None


def _catch_up(storage: ResourceStorage, watcher: InProcessWatcher, options: ListOptions) -> None:
    """Deliver the past: the current state for resourceVersion 0 or none, the history since any other."""
    asked, now = _revision(options.revision), storage.store.revision
    wants_state = options.initial_events if options.initial_events is not None else not asked
    if wants_state:
        watcher.deliver_state(storage.store.range(storage.prefix(watcher.namespace)).records)
        if options.initial_events and options.bookmarks:
            watcher.bookmark(now, initial_events_end=True)
    elif asked < now:
        try:
            storage.hub.deliver_past(watcher, storage.hub.replay(asked))
        except CompactedError as error:
            raise errors.too_old_resource_version(asked, error.compact_revision) from None


def _revision(parse: Callable[[], int]) -> int:
    try:
        return parse()
    except ValueError as error:
        raise errors.ApiError(str(error)) from None


def _partial(obj: Any) -> PartialObjectMetadata:
    return PartialObjectMetadata(metadata=obj.metadata)


class ObjectBatch(EncodedBatch):
    """Events of one delivery as objects, for all watchers in this process that get the same ones; no bytes."""

    __slots__ = ("events",)

    def __init__(self, events: list[WatchEvent], counters: WatchEventCounters) -> None:
        super().__init__([], counters)
        self.events = events


class InProcessWatcher(WatchSubscriber):
    """Watcher that queues its events as objects."""

    __slots__ = ("_arrived", "_events", "_metadata_only", "_storage", "closed")

    def __init__(self, storage: ResourceStorage, namespace: str, selection: Any, metadata_only: bool) -> None:
        super().__init__(namespace, selection)
        self._metadata_only = metadata_only
        self._storage = storage
        self._events: list[WatchEvent] = []
        self._arrived = asyncio.Event()
        self.closed = False

    def deliver(self, changes: Sequence[WatchChange], shared: dict[object, EncodedBatch]) -> None:
        """Queue the matching changes as shared structs; end the watch if too many are unread."""
        storage = self._storage
        # Watchers of a whole resource share the events, too.
        token = (storage, self._metadata_only) if self.selector.is_empty and not self.namespace else self
        batch = shared.get(token)
        if not isinstance(batch, ObjectBatch):
            batch = shared[token] = ObjectBatch(self._events_of(changes), storage.watch_events)
        if batch.events:
            self._events += batch.events
            storage.watch_events.count += len(batch.events)
        if self._events:
            self._arrived.set()
        if len(self._events) > _BACKLOG:
            self.close()

    def _events_of(self, changes: Sequence[WatchChange]) -> list[WatchEvent]:
        """Return the matching changes as events."""
        events: list[WatchEvent] = []
        for change in changes:
            kind, record = self.filter(change)
            if record is not None:
                obj = self._storage.shared_struct_at(record, change.event.revision)
                if self._metadata_only:
                    obj = _partial(obj)
                events.append(WatchEvent(kind.decode(), obj, str(change.event.revision)))  # type: ignore[arg-type]
        return events

    def deliver_state(self, records: Sequence[Record]) -> None:
        """Queue the current records as ADDED events."""
        hub = self._storage.hub
        hub.deliver_past(self, [hub.change_of(StoreEvent(one.mod_revision, one.key, one, None)) for one in records])

    def bookmark(self, revision: int, initial_events_end: bool = False) -> None:
        """Queue a BOOKMARK event."""
        self._events.append(WatchEvent("BOOKMARK", None, str(revision), initial_events_end))
        self._arrived.set()

    def close(self) -> None:
        """End the watch and wake its reader."""
        self.closed = True
        self._arrived.set()

    async def next_batch(self) -> Sequence[WatchEvent] | None:
        """Wait for and return the queued events; None at the end."""
        await self._arrived.wait()
        self._arrived.clear()
        batch, self._events = self._events, []
        if batch:
            if self.closed:
                self._arrived.set()
            return batch
        return None


def _body_of(response: Response) -> bytes:
    """Return the body of a successful response; raise the error of any other."""
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    if response.status >= 400:
        raise errors.from_status(msgspec.json.decode(body))
    return body
