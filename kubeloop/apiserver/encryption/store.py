"""Store wrapper that encrypts values for the inner store and decrypts them for its users."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kubeloop.api import errors
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.encryption.configuration import ResourceTransformers
from kubeloop.apiserver.encryption.providers import DecryptionError
from kubeloop.apiserver.encryption.transformers import ENCRYPTED, UNENCRYPTED, Transformer
from kubeloop.apiserver.measures import CounterFamily
from kubeloop.store import RangeResult, Record, Store, StoreConflict, StoreEvent, Subscription
from kubeloop.store.base import WATCH_BUFFER_EVENTS, EventCallback
from kubeloop.store.watch import BufferedWatch

log = logging.getLogger(__name__)

_Pair = tuple[Record, Record]  # stored and decrypted form
_KNOWN = {
    one.key_prefix: (one.group, one.plural) for one in reversed((*RESOURCES, *OPTIONAL_RESOURCES)) if one.is_stored
} | {"/registry/events/": ("", "events")}


class EncryptedStore:
    """Implements `Store` with encryption. Decrypted records are cached, so that a read costs a lookup.

    `_opened` holds for each key the newest record in its stored and decrypted form, and the one before it; the same
    record is always returned as the same object, on which other code relies. `_scopes` are the transformers by key
    prefix of a resource; None for those that are not, and have not been, encrypted.
    """

    def __init__(self, inner: Store, transformers: ResourceTransformers | None) -> None:
        self._inner = inner
        self._transformers = transformers
        self._opened: dict[str, tuple[_Pair, _Pair | None]] = {}
        self._scopes: dict[str, Transformer | None] = {}
        self._watches: set[BufferedWatch] = set()
        labels = ("resource", "transformation_type", "transformer_prefix", "status")
        self.operations = CounterFamily("apiserver_storage_transformation_operations_total", *labels)
        # Prefixes with encrypted values: these must be detected even if the configuration no longer has their keys.
        everything = inner.range("").records
        self._encrypted = {resource_prefix_of(one.key) for one in everything if one.value.startswith(ENCRYPTED)}

    def use(self, transformers: ResourceTransformers | None) -> None:
        """Use another configuration from now on."""
        self._transformers = transformers
        self._encrypted |= {place for place, scope in self._scopes.items() if scope is not None}
        self._scopes.clear()
        self._opened.clear()

    def is_stale(self, record: Record) -> bool:
        """Return True if a record must be rewritten even if the object is unchanged, as under an old key."""
        scope, known = self._scope(record.key), self._opened.get(record.key)
        if scope is None or known is None:
            return False
        sealed, shown = known[0]
        return shown is record and scope.is_stale(sealed.value)

    @property
    def revision(self) -> int:
        """Revision of the inner store."""
        return self._inner.revision

    @property
    def compact_revision(self) -> int:
        """Compact revision of the inner store."""
        return self._inner.compact_revision

    @property
    def trouble(self) -> str:
        """Reason why the newest flush of the inner store failed; empty if it did not."""
        return self._inner.trouble

    @property
    def shared(self) -> bool:
        """True if the inner store is shared by several servers."""
        return self._inner.shared

    @property
    def lost(self) -> int:
        """Number of times that peeked writes of the inner store have failed."""
        return self._inner.lost

    async def settled(self) -> None:
        """Wait until the outcome of every write in progress is known."""
        await self._inner.settled()

    async def current(self) -> None:
        """Wait until reads show everything acknowledged before this call; raises `StoreError`."""
        await self._inner.current()

    async def reached(self, revision: int) -> None:
        """Wait a while for a revision; compare `revision` to see if it has been reached."""
        await self._inner.reached(revision)

    def expires(self, prefix: str, seconds: float) -> bool:
        """Let keys under a prefix expire some seconds after their last write; return True if the store does so."""
        return self._inner.expires(prefix, seconds)

    async def start(self) -> None:
        """Do nothing: the inner store is started already, as its content decides about encryption."""

    async def close(self) -> None:
        """End the watches and close the inner store."""
        for watch in tuple(self._watches):
            watch.end()
        await self._inner.close()

    def peek(self, key: str) -> Record | None:
        """Return the newest record decrypted, durable or not."""
        return self._shown(self._inner.peek(key))

    def get(self, key: str) -> Record | None:
        """Return the newest durable record decrypted."""
        return self._shown(self._inner.get(key))

    def range(self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0) -> RangeResult:
        """Return durable records under a prefix, decrypted."""
        found = self._inner.range(prefix, start_after=start_after, limit=limit, revision=revision)
        if not self._concerns(prefix):
            return found
        return RangeResult([self._listed(one) for one in found.records], found.revision, found.more, found.remaining)

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[StoreEvent]:
        """Encrypt and write a value; conflicts carry the decrypted record."""
        scope = self._scope(key)
        if scope is None:
            return self._inner.write(key, value, expected)
        try:
            written = self._inner.write(key, None if value is None else self._sealed(scope, value, key), expected)
        except StoreConflict as conflict:
            raise StoreConflict(self._shown(conflict.current)) from None
        sealed = self._inner.peek(key)
        if value is not None and sealed is not None:
            self._remember(sealed, Record(key, value, sealed.create_revision, sealed.mod_revision))
        return _map_future(written, self._event, self._refusal)

    async def durable(self, record: Record) -> int:
        """Wait until a record is durable, and return its revision; conflicts carry the decrypted record."""
        try:
            return await self._inner.durable(record)
        except StoreConflict as conflict:
            raise StoreConflict(self._shown(conflict.current)) from None

    def subscribe(self, prefix: str, after_revision: int, callback: EventCallback) -> Subscription:
        """Subscribe to decrypted events; those that can't be decrypted are left out."""

        def tell(events: Sequence[StoreEvent]) -> None:
            if self._concerns(prefix):
                events = [shown for event in events if (shown := self._readable(event)) is not None]
            if events:
                callback(events)

        return self._inner.subscribe(prefix, after_revision, tell)

    def watch(self, prefix: str, after_revision: int, *, buffer: int = WATCH_BUFFER_EVENTS) -> BufferedWatch:
        """Watch decrypted events through a buffer."""
        watch = BufferedWatch(buffer, on_end=self._watches.discard)
        watch.attach(self.subscribe(prefix, after_revision, watch.push))
        self._watches.add(watch)
        return watch

    def compact(self, revision: int) -> None:
        """Compact the inner store."""
        self._inner.compact(revision)

    async def snapshot(self, path: str) -> int:
        """Write a snapshot of the inner store, encrypted as it is."""
        return await self._inner.snapshot(path)

    # Internal methods.

    def _scope(self, key: str) -> Transformer | None:
        place = resource_prefix_of(key)
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
        """Return True if a value under a prefix may be encrypted; a prefix above all resources may hold any."""
        return prefix.count("/") < 3 or self._scope(prefix) is not None

    def _shown(self, record: Record | None) -> Record | None:
        """Return a record decrypted; raises InternalError if that fails."""
        if record is None:
            return None
        try:
            return self._open(record)
        except DecryptionError as error:
            raise errors.internal_error(str(error)) from None

    def _listed(self, record: Record) -> Record:
        try:
            return self._open(record)
        except DecryptionError as error:
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
        """Return the decrypted value. Raises `DecryptionError`."""
        about = _qualified(record.key), "from_storage"
        try:
            plain = scope.open(record.value, record.key)
        except DecryptionError:
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

    def _event(self, event: StoreEvent) -> StoreEvent:
        """Return an event decrypted. Raises `DecryptionError`."""
        if self._scope(event.key) is None:
            return event
        previous = self._open(event.previous) if event.previous is not None else None
        if event.record is None:
            self._opened.pop(event.key, None)
            return StoreEvent(event.revision, event.key, None, previous)
        return StoreEvent(event.revision, event.key, self._open(event.record), previous)

    def _refusal(self, error: BaseException) -> BaseException:
        return StoreConflict(self._shown(error.current)) if isinstance(error, StoreConflict) else error

    def _readable(self, event: StoreEvent) -> StoreEvent | None:
        """Return an event decrypted, or None (logged) if that fails: subscribers must not stop for it."""
        try:
            return self._event(event)
        except DecryptionError as error:
            log.error("%s cannot be read: %s", event.key, error)
            return None


def resource_prefix_of(key: str) -> str:
    """Return the key prefix of a key's resource; also for a prefix below it."""
    parts = key.split("/", 4)
    place = f"/{'/'.join(parts[1:3])}/"
    return place if place in _KNOWN or len(parts) < 4 else f"{place}{parts[3]}/"


def _resource_of(place: str) -> tuple[str, str]:
    """Return group and resource of a key prefix; empty if it belongs to no resource."""
    if place in _KNOWN:
        return _KNOWN[place]
    parts = place.split("/")
    return (parts[2], parts[3]) if len(parts) == 5 and "." in parts[2] else ("", "")


def _qualified(key: str) -> str:
    group, resource = _resource_of(resource_prefix_of(key))
    return f"{resource}.{group}" if group else resource


def _map_future(
    written: asyncio.Future[StoreEvent],
    change: Callable[[StoreEvent], StoreEvent],
    refusal: Callable[[BaseException], BaseException],
) -> asyncio.Future[StoreEvent]:
    """Return a future with the write's event, or its error, as the writer sees it."""
    seen: asyncio.Future[StoreEvent] = written.get_loop().create_future()

    def settle(done: asyncio.Future[StoreEvent]) -> None:
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
