"""The server's entrance for callers in the same process: the same steps as over HTTP, without serializing.

Reads share one decoded struct per stored record with everybody else in the process. A write copies what it is given
once, because defaulting and admission complete an object in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.calls import Call, ListResult, WatchEvent
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.authorization import authorize_target
from kubeloop.apiserver.context import Context, User
from kubeloop.apiserver.endpoints.read import MIN_WATCH_SECONDS
from kubeloop.apiserver.http import Request, Response
from kubeloop.apiserver.list_options import parse_options
from kubeloop.apiserver.listing import list_page
from kubeloop.apiserver.negotiation import PLAIN, Format
from kubeloop.apiserver.query import Query
from kubeloop.apiserver.routing import Target
from kubeloop.apiserver.storage import Storage
from kubeloop.apiserver.watching import Change, Watcher
from kubeloop.store import Compacted, Event, Record

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
_METADATA = Format(convert="PartialObjectMetadata")
# A watcher that leaves this many events unread is cut off, as a slow HTTP client is.
_BACKLOG = 100_000


class LocalEntry:
    """Calls as some user, straight into the server."""

    def __init__(self, server: ApiServer, user: User) -> None:
        self._server = server
        self._user = user

    async def call(self, call: Call) -> Any:
        """Answer as HTTP would, with objects instead of bytes."""
        ctx = self._context(call)
        if call.verb in ("get", "list") and not call.subresource and call.resource.is_stored:
            authorize_target(self._user, ctx.target, call.verb)
            storage = self._server.registry.of(call.resource)
            return self._get(ctx, storage, call) if call.verb == "get" else self._list(ctx, storage, call)
        authorize_target(self._user, ctx.target, call.verb)
        response = await self._server.serve(ctx, call.verb)
        return _decoded(response, call)

    def _context(self, call: Call) -> Context:
        target = Target(call.resource, call.verb, call.namespace, call.name, call.subresource)
        request = Request(_METHODS[call.verb], "", "", {"user-agent": call.user_agent})
        request.headers["content-type"] = call.patch_type or "application/json"
        if call.body is not None:
            request.body = call.body if isinstance(call.body, bytes) else codec.encode(call.body)
        query = Query.of(call.options)
        form = _METADATA if call.metadata_only else PLAIN
        ctx = Context(request, target, query, self._user, form, self._server.clock.now().replace(microsecond=0))
        ctx.dry_run = bool(query.text("dryRun"))
        return ctx

    def _get(self, ctx: Context, storage: Storage, call: Call) -> Any:
        record = storage.get(call.namespace, call.name)
        if record is None:
            raise errors.not_found(call.resource.group, call.resource.plural, call.name)
        return storage.shared(record)

    def _list(self, ctx: Context, storage: Storage, call: Call) -> ListResult:
        options = parse_options(ctx.query, storage.memory, watch=False)
        page = list_page(storage.store, storage.prefix(call.namespace), options)
        return ListResult(
            items=tuple(map(storage.shared, page.records)),
            resource_version=str(page.revision),
            continue_token=page.continue_token,
            remaining=page.remaining,
        )

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Batches of events; ends when the watch's time is over or the server stops."""
        ctx = self._context(call)
        authorize_target(self._user, ctx.target, "watch")
        storage = self._server.registry.of(call.resource)
        options = parse_options(ctx.query, storage.memory, watch=True)
        watcher = LocalWatcher(storage, call.namespace, options.selection)
        try:
            asked = options.revision()
            wants_state = options.initial_events if options.initial_events is not None else not asked
            if wants_state:
                watcher.offer_state(storage.store.range(storage.prefix(call.namespace)).records)
                if options.initial_events:
                    watcher.bookmark(storage.store.revision, initial_events_end=True)
            elif asked < storage.store.revision:
                watcher.tell(storage.hub.replay(asked), {})
        except Compacted as error:
            raise errors.too_old_resource_version(asked, error.compact_revision) from None
        storage.hub.add(watcher)
        seconds = options.timeout_seconds or MIN_WATCH_SECONDS
        end = asyncio.get_running_loop().call_later(seconds, watcher.close)
        try:
            while (batch := await watcher.next_batch()) is not None:
                yield batch
        finally:
            end.cancel()
            storage.hub.remove(watcher)


class LocalWatcher(Watcher):
    """A watcher whose events are objects in a queue."""

    __slots__ = ("_arrived", "_events", "_storage", "closed")

    def __init__(self, storage: Storage, namespace: str, selection: Any) -> None:
        super().__init__(namespace, selection)
        self._storage = storage
        self._events: list[WatchEvent] = []
        self._arrived = asyncio.Event()
        self.closed = False

    def tell(self, changes: Sequence[Change], shared: dict[object, bytes]) -> None:
        for change in changes:
            kind, record = self.seen(change)
            if record is not None:
                obj = self._storage.shared_at(record, change.event.revision)
                self._events.append(WatchEvent(kind.decode(), obj, str(change.event.revision)))  # type: ignore[arg-type]
        if self._events:
            self._arrived.set()
        if len(self._events) > _BACKLOG:
            self.close()

    def offer_state(self, records: Sequence[Record]) -> None:
        self.tell([self._storage.hub.change(Event(one.mod_revision, one.key, one, None)) for one in records], {})

    def bookmark(self, revision: int, initial_events_end: bool = False) -> None:
        self._events.append(WatchEvent("BOOKMARK", None, str(revision), initial_events_end))
        self._arrived.set()

    def close(self) -> None:
        self.closed = True
        self._arrived.set()

    async def next_batch(self) -> Sequence[WatchEvent] | None:
        await self._arrived.wait()
        self._arrived.clear()
        batch, self._events = self._events, []
        if batch:
            if self.closed:
                self._arrived.set()
            return batch
        return None


def _decoded(response: Response, call: Call) -> Any:
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    document = msgspec.json.decode(body)
    if document.get("kind") == "Status":
        if response.status >= 400:
            raise errors.from_status(document)
        return document
    if document.get("kind") == call.resource.kind and document.get("apiVersion") == call.resource.group_version:
        return codec.decode(body, call.resource.type)
    return document
