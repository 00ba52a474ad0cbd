# SPDX-License-Identifier: Apache-2.0
"""Store wrapper that encrypts values for the inner store and decrypts them for its users."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from kubeloop.api import errors
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.encryption.configuration import ResourceTransformers
from kubeloop.apiserver.encryption.providers import DecryptionError, EncryptionError
from kubeloop.apiserver.encryption.transformers import ENCRYPTED, UNENCRYPTED, Transformer
from kubeloop.metrics import MetricRegistry
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

    def __init__(self, inner: Store, transformers: ResourceTransformers | None, metrics: MetricRegistry) -> None:
        self._inner = inner
        self._transformers = transformers
        self._decrypted_cache: dict[str, tuple[_Pair, _Pair | None]] = {}
        self._scopes: dict[str, Transformer | None] = {}
        self._watches: set[BufferedWatch] = set()
        labels = ("resource", "transformation_type", "transformer_prefix", "status")
        self._operations = metrics.counter("apiserver_storage_transformation_operations_total", *labels)
        # Prefixes with encrypted values: these must be detected even if the configuration no longer has their keys.
        everything = inner.range("").records
        self._encrypted = {resource_prefix_of(one.key) for one in everything if one.value.startswith(ENCRYPTED)}

    async def resolve_keys(self, transformers: ResourceTransformers | None = None) -> None:
        """Let KMS plugins decrypt the data keys of all stored values, for the current or for other transformers."""
        found = transformers or self._transformers
        if found is not None and found.kms:
            await found.resolve(record.value for record in self._inner.range("").records)

    @property
    def kms_problems(self) -> list[str]:
        """Problems of the KMS providers, in order; empty texts for healthy ones."""
        return [one.problem for one in self._transformers.kms.values()] if self._transformers is not None else []

    async def reload(self, transformers: ResourceTransformers) -> None:
        """Use another configuration as soon as its KMS plugins have answered."""
        previous = self._transformers
        await transformers.start()
        await self.resolve_keys(transformers)
        self.set_transformers(transformers)
        if previous is not None:
            await previous.close()

    def set_transformers(self, transformers: ResourceTransformers | None) -> None:
        """Use another configuration from now on."""
        self._transformers = transformers
        self._encrypted |= {place for place, scope in self._scopes.items() if scope is not None}
        self._scopes.clear()
        self._decrypted_cache.clear()

    def is_stale(self, record: Record) -> bool:
        """Return True if a record must be rewritten even if the object is unchanged, as under an old key."""
        scope, known = self._scope(record.key), self._decrypted_cache.get(record.key)
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
    def last_error(self) -> str:
        """Reason why the newest flush of the inner store failed; empty if it did not."""
        return self._inner.last_error

    @property
    def file_bytes(self) -> int:
        """Size of the database file."""
        return self._inner.file_bytes

    @property
    def is_shared(self) -> bool:
        """True if the inner store is shared by several servers."""
        return self._inner.is_shared

    @property
    def rollbacks(self) -> int:
        """Number of times that peeked writes of the inner store have failed."""
        return self._inner.rollbacks

    async def wait_settled(self) -> None:
        """Wait until the outcome of every write in progress is known."""
        await self._inner.wait_settled()

    async def wait_current(self) -> None:
        """Wait until reads show everything acknowledged before this call; raises `StoreError`."""
        await self._inner.wait_current()
        await self._wait_keys()

    async def wait_revision(self, revision: int) -> None:
        """Wait a while for a revision; compare `revision` to see if it has been reached."""
        await self._inner.wait_revision(revision)
        await self._wait_keys()

    def set_ttl(self, prefix: str, seconds: float) -> bool:
        """Let keys under a prefix expire some seconds after their last write; return True if the store does so."""
        return self._inner.set_ttl(prefix, seconds)

    async def start(self) -> None:
        """Do nothing: the inner store is started already, as its content decides about encryption."""

    async def close(self) -> None:
        """End the watches and close the inner store."""
        for watch in tuple(self._watches):
            watch.end()
        await self._inner.close()

    async def close_providers(self) -> None:
        """Stop the probes of KMS plugins."""
        if self._transformers is not None:
            await self._transformers.close()

    def peek(self, key: str) -> Record | None:
        """Return the newest record decrypted, durable or not."""
        return self._decrypted(self._inner.peek(key))

    def get(self, key: str) -> Record | None:
        """Return the newest durable record decrypted."""
        return self._decrypted(self._inner.get(key))

    def range(self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0) -> RangeResult:
        """Return durable records under a prefix, decrypted."""
        found = self._inner.range(prefix, start_after=start_after, limit=limit, revision=revision)
        if not self._may_be_encrypted(prefix):
            return found
        return RangeResult(
            [self._decrypted_in_list(one) for one in found.records], found.revision, found.has_more, found.remaining
        )

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[StoreEvent]:
        """Encrypt and write a value; conflicts carry the decrypted record."""
        scope = self._scope(key)
        if scope is None:
            return self._inner.write(key, value, expected)
        try:
            written = self._inner.write(key, None if value is None else self._encrypt(scope, value, key), expected)
        except StoreConflict as conflict:
            raise StoreConflict(self._decrypted(conflict.current)) from None
        sealed = self._inner.peek(key)
        if value is not None and sealed is not None:
            self._cache(sealed, Record(key, value, sealed.create_revision, sealed.mod_revision))
        return _map_future(written, self._decrypted_event, self._map_error)

    async def wait_durable(self, record: Record) -> int:
        """Wait until a record is durable, and return its revision; conflicts carry the decrypted record."""
        try:
            return await self._inner.wait_durable(record)
        except StoreConflict as conflict:
            raise StoreConflict(self._decrypted(conflict.current)) from None

    def subscribe(self, prefix: str, after_revision: int, callback: EventCallback) -> Subscription:
        """Subscribe to decrypted events; those that can't be decrypted are left out."""

        def tell(events: Sequence[StoreEvent]) -> None:
            if self._may_be_encrypted(prefix):
                events = [shown for event in events if (shown := self._decrypted_event_or_none(event)) is not None]
            if events:
                callback(events)

        deferred = DeferredEvents(self._unknown_keys, self._resolve_events, tell)
        deferred.attach(self._inner.subscribe(prefix, after_revision, deferred.push))
        return deferred

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

    def _unknown_keys(self, events: Sequence[StoreEvent]) -> bool:
        """Return True if a KMS plugin has to decrypt a data key of one of the events first."""
        found = self._transformers
        return found is not None and bool(found.kms) and any(map(found.is_unknown, _values(events)))

    async def _resolve_events(self, events: Sequence[StoreEvent]) -> None:
        if self._transformers is not None:
            await self._transformers.resolve(_values(events))

    async def _wait_keys(self) -> None:
        """Wait for data keys that other servers of a shared store have used."""
        if self._transformers is not None and self._transformers.kms:
            await self._transformers.resolve(())

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

    def _may_be_encrypted(self, prefix: str) -> bool:
        """Return True if a value under a prefix may be encrypted; a prefix above all resources may hold any."""
        return prefix.count("/") < 3 or self._scope(prefix) is not None

    def _decrypted(self, record: Record | None) -> Record | None:
        """Return a record decrypted; raises InternalError if that fails."""
        if record is None:
            return None
        try:
            return self._decrypt(record)
        except DecryptionError as error:
            raise errors.internal_error(str(error)) from None

    def _decrypted_in_list(self, record: Record) -> Record:
        try:
            return self._decrypt(record)
        except DecryptionError as error:
            raise errors.internal_error(f'unable to transform key "{record.key}": {error}') from None

    def _decrypt(self, record: Record) -> Record:
        known = self._decrypted_cache.get(record.key)
        for pair in known or ():
            if pair is not None and pair[0] is record:
                return pair[1]
        scope = self._scope(record.key)
        if scope is None:
            return record
        plain = self._decrypt_value(scope, record)
        if plain is record.value:
            shown = record
        else:
            shown = Record(record.key, plain, record.create_revision, record.mod_revision)
        self._cache(record, shown)
        return shown

    def _encrypt(self, scope: Transformer, value: bytes, key: str) -> bytes:
        try:
            sealed = scope.transform_to_storage(value, key)
        except EncryptionError as error:
            self._operations.with_labels(_qualified(key), "to_storage", scope.write_prefix, "Unknown").value += 1
            raise errors.internal_error(str(error)) from None
        self._operations.with_labels(_qualified(key), "to_storage", scope.prefix_of(sealed), "OK").value += 1
        return sealed

    def _decrypt_value(self, scope: Transformer, record: Record) -> bytes:
        """Return the decrypted value. Raises `DecryptionError`."""
        about = _qualified(record.key), "from_storage"
        try:
            plain = scope.transform_from_storage(record.value, record.key)
        except DecryptionError:
            self._operations.with_labels(*about, scope.prefix_of(record.value), "Unknown").value += 1
            raise
        self._operations.with_labels(*about, scope.prefix_of(record.value), "OK").value += 1
        return plain

    def _cache(self, sealed: Record, shown: Record) -> None:
        known = self._decrypted_cache.get(sealed.key)
        if known is None or sealed.mod_revision > known[0][0].mod_revision:
            self._decrypted_cache[sealed.key] = ((sealed, shown), known[0] if known is not None else None)
        else:
            self._decrypted_cache[sealed.key] = (known[0], (sealed, shown))

    def _decrypted_event(self, event: StoreEvent) -> StoreEvent:
        """Return an event decrypted. Raises `DecryptionError`."""
        if self._scope(event.key) is None:
            return event
        previous = self._decrypt(event.previous) if event.previous is not None else None
        if event.record is None:
            self._decrypted_cache.pop(event.key, None)
            return StoreEvent(event.revision, event.key, None, previous)
        return StoreEvent(event.revision, event.key, self._decrypt(event.record), previous)

    def _map_error(self, error: BaseException) -> BaseException:
        return StoreConflict(self._decrypted(error.current)) if isinstance(error, StoreConflict) else error

    def _decrypted_event_or_none(self, event: StoreEvent) -> StoreEvent | None:
        """Return an event decrypted, or None (logged) if that fails: subscribers must not stop for it."""
        try:
            return self._decrypted_event(event)
        except DecryptionError as error:
            log.error("%s cannot be read: %s", event.key, error)
            return None


class DeferredEvents:
    """Delivers events in order; from the first one whose data key has to be decrypted, they wait for it."""

    def __init__(
        self,
        must_wait: Callable[[Sequence[StoreEvent]], bool],
        resolve: Callable[[Sequence[StoreEvent]], Awaitable[None]],
        deliver: Callable[[Sequence[StoreEvent]], None],
    ) -> None:
        self._must_wait = must_wait
        self._resolve = resolve
        self._deliver = deliver
        self._queue: deque[Sequence[StoreEvent]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._source: Subscription | None = None

    def attach(self, source: Subscription) -> None:
        """Set the subscription of the inner store, which `cancel` ends."""
        self._source = source

    def cancel(self) -> None:
        """Stop the callbacks; events that wait are dropped."""
        if self._source is not None:
            self._source.cancel()
        self._queue.clear()

    def push(self, events: Sequence[StoreEvent]) -> None:
        """Deliver events now, or after those that wait."""
        if self._task is None and not self._must_wait(events):
            self._deliver(events)
            return
        self._queue.append(events)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while self._queue:
                await self._resolve(self._queue[0])
                if self._queue:  # not cancelled meanwhile
                    self._deliver(self._queue.popleft())
        finally:
            self._task = None


def _values(events: Sequence[StoreEvent]) -> list[bytes]:
    return [one.value for event in events for one in (event.record, event.previous) if one is not None]


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
