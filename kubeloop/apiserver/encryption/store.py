"""A store whose values are plain to its users and encrypted to what lies below."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kubeloop.api import errors
from kubeloop.api.features.optional_resources import OFFERED
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.encryption.configuration import Transformers
from kubeloop.apiserver.encryption.providers import Undecryptable
from kubeloop.apiserver.encryption.transformers import ENCRYPTED, UNENCRYPTED, Transformer
from kubeloop.apiserver.measures import Counters
from kubeloop.store import Conflict, Event, Range, Record, Store, Subscription
from kubeloop.store.base import WATCH_BUFFER_EVENTS, EventCallback
from kubeloop.store.watch import BufferedWatch

log = logging.getLogger(__name__)

_Pair = tuple[Record, Record]  # as it lies in the store, and as it is shown
_KNOWN = {one.key_prefix: (one.group, one.plural) for one in reversed((*RESOURCES, *OFFERED)) if one.is_stored} | {
    "/registry/events/": ("", "events")
}


class EncryptedStore:
    """Implements `Store`. What has been opened once is remembered, so that reading costs a look-up, not a decryption.

    `_opened` holds for each key the newest record as it lies in the store and as it is shown, and the one before it;
    the same record is shown as the same object, which others rely on. `_scopes` are the resources' transformers by the
    place of their objects; None for those that are, and lie there, unencrypted.
    """

    def __init__(self, inner: Store, transformers: Transformers | None) -> None:
        self._inner = inner
        self._transformers = transformers
        self._opened: dict[str, tuple[_Pair, _Pair | None]] = {}
        self._scopes: dict[str, Transformer | None] = {}
        self._watches: set[BufferedWatch] = set()
        labels = ("resource", "transformation_type", "transformer_prefix", "status")
        self.operations = Counters("apiserver_storage_transformation_operations_total", *labels)
        # Where encrypted values lie: there they must be noticed even if nothing says any more how to read them.
        everything = inner.range("").records
        self._encrypted = {place_of(one.key) for one in everything if one.value.startswith(ENCRYPTED)}

    def use(self, transformers: Transformers | None) -> None:
        """Another configuration, from now on."""
        self._transformers = transformers
        self._encrypted |= {place for place, scope in self._scopes.items() if scope is not None}
        self._scopes.clear()
        self._opened.clear()

    def is_stale(self, record: Record) -> bool:
        """Whether a record that this store has shown should be written again, even if nothing in it changes."""
        scope, known = self._scope(record.key), self._opened.get(record.key)
        if scope is None or known is None:
            return False
        sealed, shown = known[0]
        return shown is record and scope.is_stale(sealed.value)

    @property
    def revision(self) -> int:
        return self._inner.revision

    @property
    def compact_revision(self) -> int:
        return self._inner.compact_revision

    @property
    def trouble(self) -> str:
        return self._inner.trouble

    @property
    def shared(self) -> bool:
        return self._inner.shared

    @property
    def lost(self) -> int:
        return self._inner.lost

    async def settled(self) -> None:
        await self._inner.settled()

    async def current(self) -> None:
        await self._inner.current()

    async def reached(self, revision: int) -> None:
        await self._inner.reached(revision)

    def expires(self, prefix: str, seconds: float) -> bool:
        return self._inner.expires(prefix, seconds)

    async def start(self) -> None:
        """Started already: what it holds decides about encryption."""

    async def close(self) -> None:
        for watch in tuple(self._watches):
            watch.end()
        await self._inner.close()

    def peek(self, key: str) -> Record | None:
        return self._shown(self._inner.peek(key))

    def get(self, key: str) -> Record | None:
        return self._shown(self._inner.get(key))

    def range(self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0) -> Range:
        found = self._inner.range(prefix, start_after=start_after, limit=limit, revision=revision)
        if not self._concerns(prefix):
            return found
        return Range([self._listed(one) for one in found.records], found.revision, found.more, found.remaining)

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[Event]:
        scope = self._scope(key)
        if scope is None:
            return self._inner.write(key, value, expected)
        try:
            written = self._inner.write(key, None if value is None else self._sealed(scope, value, key), expected)
        except Conflict as conflict:
            raise Conflict(self._shown(conflict.current)) from None
        sealed = self._inner.peek(key)
        if value is not None and sealed is not None:
            self._remember(sealed, Record(key, value, sealed.create_revision, sealed.mod_revision))
        return _mapped(written, self._event, self._refusal)

    async def durable(self, record: Record) -> int:
        try:
            return await self._inner.durable(record)
        except Conflict as conflict:
            raise Conflict(self._shown(conflict.current)) from None

    def subscribe(self, prefix: str, after_revision: int, callback: EventCallback) -> Subscription:
        def tell(events: Sequence[Event]) -> None:
            if self._concerns(prefix):
                events = [shown for event in events if (shown := self._readable(event)) is not None]
            if events:
                callback(events)

        return self._inner.subscribe(prefix, after_revision, tell)

    def watch(self, prefix: str, after_revision: int, *, buffer: int = WATCH_BUFFER_EVENTS) -> BufferedWatch:
        watch = BufferedWatch(buffer, on_end=self._watches.discard)
        watch.attach(self.subscribe(prefix, after_revision, watch.push))
        self._watches.add(watch)
        return watch

    def compact(self, revision: int) -> None:
        self._inner.compact(revision)

    async def snapshot(self, path: str) -> int:
        return await self._inner.snapshot(path)

    # Within.

    def _scope(self, key: str) -> Transformer | None:
        place = place_of(key)
        try:
            return self._scopes[place]
        except KeyError:
            scope = self._scopes[place] = self._find_scope(place)
            return scope

    def _find_scope(self, place: str) -> Transformer | None:
        group, resource = _resource_of(place)
        found = self._transformers.of(group, resource) if self._transformers is not None and resource else None
        return found or (UNENCRYPTED if place in self._encrypted else None)

    def _concerns(self, prefix: str) -> bool:
        """Whether something under a prefix may be encrypted; a prefix above all resources may hold anything."""
        return prefix.count("/") < 3 or self._scope(prefix) is not None

    def _shown(self, record: Record | None) -> Record | None:
        """Raises InternalError for what can't be read."""
        if record is None:
            return None
        try:
            return self._open(record)
        except Undecryptable as error:
            raise errors.internal_error(str(error)) from None

    def _listed(self, record: Record) -> Record:
        try:
            return self._open(record)
        except Undecryptable as error:
            raise errors.internal_error(f'unable to transform key "{record.key}": {error}') from None

    def _open(self, record: Record) -> Record:
        known = self._opened.get(record.key)
        for pair in known or ():
            if pair is not None and pair[0] is record:
                return pair[1]
        scope = self._scope(record.key)
        if scope is None:
            return record
        plain = self._plain(scope, record)
        if plain is record.value:
            shown = record
        else:
            shown = Record(record.key, plain, record.create_revision, record.mod_revision)
        self._remember(record, shown)
        return shown

    def _sealed(self, scope: Transformer, value: bytes, key: str) -> bytes:
        sealed = scope.seal(value, key)
        self.operations.add(_qualified(key), "to_storage", scope.prefix_of(sealed), "OK")
        return sealed

    def _plain(self, scope: Transformer, record: Record) -> bytes:
        """Raises `Undecryptable`."""
        about = _qualified(record.key), "from_storage"
        try:
            plain = scope.open(record.value, record.key)
        except Undecryptable:
            self.operations.add(*about, scope.prefix_of(record.value), "Unknown")
            raise
        self.operations.add(*about, scope.prefix_of(record.value), "OK")
        return plain

    def _remember(self, sealed: Record, shown: Record) -> None:
        known = self._opened.get(sealed.key)
        if known is None or sealed.mod_revision > known[0][0].mod_revision:
            self._opened[sealed.key] = ((sealed, shown), known[0] if known is not None else None)
        else:
            self._opened[sealed.key] = (known[0], (sealed, shown))

    def _event(self, event: Event) -> Event:
        """Raises `Undecryptable`."""
        if self._scope(event.key) is None:
            return event
        previous = self._open(event.previous) if event.previous is not None else None
        if event.record is None:
            self._opened.pop(event.key, None)
            return Event(event.revision, event.key, None, previous)
        return Event(event.revision, event.key, self._open(event.record), previous)

    def _refusal(self, error: BaseException) -> BaseException:
        return Conflict(self._shown(error.current)) if isinstance(error, Conflict) else error

    def _readable(self, event: Event) -> Event | None:
        """An event for those who follow; one that can't be read is left out, for they must not stop for it."""
        try:
            return self._event(event)
        except Undecryptable as error:
            log.error("%s cannot be read: %s", event.key, error)
            return None


def place_of(key: str) -> str:
    """Where the objects of a key's resource lie; of a prefix of them as well."""
    parts = key.split("/", 4)
    place = f"/{'/'.join(parts[1:3])}/"
    return place if place in _KNOWN or len(parts) < 4 else f"{place}{parts[3]}/"


def _resource_of(place: str) -> tuple[str, str]:
    """The group and resource of a place; no resource for what isn't one's."""
    if place in _KNOWN:
        return _KNOWN[place]
    parts = place.split("/")
    return (parts[2], parts[3]) if len(parts) == 5 and "." in parts[2] else ("", "")


def _qualified(key: str) -> str:
    group, resource = _resource_of(place_of(key))
    return f"{resource}.{group}" if group else resource


def _mapped(
    written: asyncio.Future[Event], change: Callable[[Event], Event], refusal: Callable[[BaseException], BaseException]
) -> asyncio.Future[Event]:
    """What a write will have done, as its writer sees it."""
    seen: asyncio.Future[Event] = written.get_loop().create_future()

    def settle(done: asyncio.Future[Event]) -> None:
        if seen.done():
            if not done.cancelled():
                done.exception()
        elif done.cancelled():
            seen.cancel()
        elif (error := done.exception()) is not None:
            seen.set_exception(refusal(error))
        else:
            seen.set_result(change(done.result()))

    written.add_done_callback(settle)
    return seen
