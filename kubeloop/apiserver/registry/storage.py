# SPDX-License-Identifier: Apache-2.0
"""Storage of each resource: its part of the store, with serializer, selector cache and watch hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource
from kubeloop.api.strategy import Strategy, strategy_of
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.registry.allocation import DEFAULT_RANGES, ServiceAllocator, ServiceRanges
from kubeloop.apiserver.registry.selector_fields import SelectorFieldCache
from kubeloop.apiserver.registry.serializer import StoredSerializer, encode_stored
from kubeloop.apiserver.watch.counters import ListCounters, WatchEventCounters, WriteCounters
from kubeloop.apiserver.watch.hub import WatchHub
from kubeloop.store import Record, Store

_MAX_SPECS: Final = 512  # maximum number of specs; above it, specs that no pod uses are dropped


class PodSpecInterner:
    """Interner of pod specs: pods of one template have equal specs except for their node, and share one in memory."""

    def __init__(self) -> None:
        self._specs: dict[bytes, Any] = {}
        self._interned_ids: set[int] = set()  # identities of the interned specs

    def __len__(self) -> int:
        return len(self._specs)

    def intern(self, obj: Any) -> None:
        """Replace a new pod's spec by an equal interned one. Other kinds are ignored: they are few."""
        if not isinstance(obj, Pod):
            return
        node = obj.spec.node_name
        spec = replace(obj.spec, node_name="") if node else obj.spec
        if id(spec) in self._interned_ids:
            return
        text = codec.encode(spec)
        known = self._specs.get(text)
        if known is None:
            if len(self._specs) >= _MAX_SPECS:
                self._specs.clear()
                self._interned_ids.clear()
            known = self._specs[text] = spec
            self._interned_ids.add(id(spec))
        codec.force_setattr(obj, "spec", replace(known, node_name=node) if node else known)


class Conversion(Protocol):
    """Asynchronous conversion between the stored version and a served one, by a conversion webhook."""

    async def prepare(self, values: Iterable[bytes], *, as_list: bool = False) -> None:
        """Convert stored objects before they are read; raises an ApiError."""
        ...

    async def to_stored(self, value: bytes) -> bytes:
        """Convert an encoded object to the stored version; raises an ApiError."""
        ...


class _Publication:
    """Publication of a struct while its object is stored; a generator would cost more than what it does."""

    __slots__ = ("_entry", "_key", "_published")

    def __init__(self, published: dict[str, tuple[bytes, Any]], key: str, entry: tuple[bytes, Any]) -> None:
        self._published = published
        self._key = key
        self._entry = entry

    def __enter__(self) -> None:
        self._published[self._key] = self._entry

    def __exit__(self, *_: object) -> None:
        self._published.pop(self._key, None)


_UNPUBLISHED: Final = nullcontext()


class ResourceStorage:
    """Storage of one resource; versions that share their objects share the hub."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        hub: WatchHub | None = None,
        view: StoredSerializer | None = None,
        memory: SelectorFieldCache | None = None,
    ) -> None:
        self.store = store
        self.resource = resource
        self.serializer = view or StoredSerializer(resource)
        self.field_cache = memory or SelectorFieldCache(resource)
        self.hub = hub or WatchHub(store, resource.key_prefix, resource.namespaced, self.field_cache)
        # Predicate: rewrite the record even if the object is unchanged, as after a change of the encryption key.
        self.is_stale: Callable[[Record], bool] = getattr(store, "is_stale", _never_stale)
        self.lists = ListCounters()
        self.writes = WriteCounters()
        self.watch_events = WatchEventCounters()
        self.allocator: ServiceAllocator | None = None
        self.conversion: Conversion | None = None
        self._strategy: Strategy | None = None
        self._shared_structs: dict[str, tuple[Record, int, Any]] = {}
        self._published: dict[str, tuple[bytes, Any]] = {}
        self._spec_interner = PodSpecInterner()

    @property
    def strategy(self) -> Strategy:
        """Strategy of the kind, looked up on first use because it imports the kind's types."""
        if self._strategy is None:
            self._strategy = strategy_of(self.resource)
        return self._strategy

    def shared_struct(self, record: Record) -> Any:
        """Return a record decoded as the struct that all in-process readers share; it must not be changed."""
        return self.shared_struct_at(record, record.mod_revision)

    def shared_struct_at(self, record: Record, revision: int) -> Any:
        """Return the shared struct with another revision, as that of its deletion."""
        known = self._shared_structs.get(record.key)
        if known is not None and known[0] is record and known[1] == revision:
            return known[2]
        if revision != record.mod_revision:
            self._shared_structs.pop(record.key, None)
            return self._with_revision(record, known, revision)
        obj = self._decode_or_published(record)
        if obj is None:
            obj = self.decode(record, revision)
            self._spec_interner.intern(obj)
        self._shared_structs[record.key] = (record, revision, obj)
        return obj

    def peek_decoded(self, record: Record) -> Any:
        """Return the shared struct if there is one, else decode the record without sharing the result."""
        known = self._shared_structs.get(record.key)
        return known[2] if known is not None and known[0] is record else self.serializer.decode_record(record)

    def copy_for_deletion(self, record: Record) -> Any:
        """Return a record as a struct of the stored version whose metadata belongs to the caller.

        All other parts may be shared, and must not be changed.
        """
        known = self._shared_structs.get(record.key)
        if known is None or known[0] is not record or self.serializer.converts:
            return self.serializer.decode_stored(record.value, record.mod_revision)
        obj, meta = known[2], known[2].metadata
        if not isinstance(obj, msgspec.Struct):
            return self.serializer.decode_stored(record.value, record.mod_revision)
        return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(meta))

    def _with_revision(self, record: Record, known: tuple[Record, int, Any] | None, revision: int) -> Any:
        """Return a deleted object with the revision of its deletion."""
        if known is None or known[0] is not record or not isinstance(known[2], msgspec.Struct):
            return self.decode(record, revision)
        return with_revision(known[2], revision)

    def intern(self, obj: Any) -> None:
        """Intern parts of a new object, if in-process readers keep objects."""
        if self._shared_structs:
            self._spec_interner.intern(obj)

    def publish_struct(self, key: str, value: bytes, obj: Any) -> AbstractContextManager[None]:
        """Publish a struct while its object is stored, so that in-process watchers share it without decoding.

        The caller must not change the object afterwards.
        """
        if not self._shared_structs or self.serializer.converts or isinstance(obj, CustomResourceObject):
            return _UNPUBLISHED
        return _Publication(self._published, key, (value, obj))

    def _decode_or_published(self, record: Record) -> Any:
        written = self._published.get(record.key)
        if written is None or written[0] is not record.value:
            return None
        codec.force_setattr(written[1].metadata, "resource_version", str(record.mod_revision))
        return written[1]

    def decode(self, record: Record, revision: int) -> Any:
        """Decode a record into a struct that belongs to the caller."""
        return self.serializer.decode(record.value, revision)

    async def prepare_conversion(self, *records: Record | None) -> None:
        """Convert records by webhook, if needed, before they are decoded outside of a read."""
        if self.conversion is not None:
            await self.conversion.prepare([record.value for record in records if record is not None])

    async def encode(self, obj: Any) -> bytes:
        """Return the bytes to store for an object of the served version."""
        value = encode_stored(obj)
        return value if self.conversion is None else await self.conversion.to_stored(value)

    def prefix(self, namespace: str) -> str:
        """Return the key prefix of a namespace, or of the whole resource."""
        return f"{self.resource.key_prefix}{namespace}/" if namespace else self.resource.key_prefix

    def key(self, namespace: str, name: str) -> str:
        """Return the store key of an object."""
        return self.resource.key(namespace, name)

    def get(self, namespace: str, name: str) -> Record | None:
        """Return the committed record of an object, or None."""
        return self.store.get(self.key(namespace, name))

    def peek(self, namespace: str, name: str) -> Record | None:
        """Return the newest record of an object, which may not be durable yet, or None."""
        return self.store.peek(self.key(namespace, name))


def with_revision(obj: Any, revision: int) -> Any:
    """Return a copy of a struct with another resourceVersion."""
    meta = msgspec.structs.replace(obj.metadata, resource_version=str(revision))
    return msgspec.structs.replace(obj, metadata=meta)


def _never_stale(_: Record) -> bool:
    return False


class StorageRegistry:
    """Storages of all resources, by (group, version, plural)."""

    def __init__(self, store: Store, resources: Iterable[Resource], services: ServiceRanges = DEFAULT_RANGES) -> None:
        self.store = store
        self._storages: dict[tuple[str, str, str], ResourceStorage] = {}
        hubs: dict[str, WatchHub] = {}
        for resource in resources:
            if resource.is_stored:
                storage = ResourceStorage(store, resource, hubs.get(resource.key_prefix))
                hubs.setdefault(resource.key_prefix, storage.hub)
                self._storages[resource.group, resource.version, resource.plural] = storage
                if resource.group_resource == "services":
                    storage.allocator = ServiceAllocator(store, services)

    def storage_of(self, resource: Resource) -> ResourceStorage:
        """Return the storage of a resource; raises KeyError."""
        return self._storages[resource.group, resource.version, resource.plural]

    def storage_named(self, group: str, version: str, plural: str) -> ResourceStorage:
        """Return the storage of a resource by its names; raises KeyError."""
        return self._storages[group, version, plural]

    def get_object(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None:
        """Return a committed object as a struct, or None, for lookups by admission and other steps."""
        storage = self._storages[group, version, plural]
        record = storage.get(namespace, name)
        return None if record is None else storage.serializer.decode_record(record)

    def list_objects(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> list[Any]:
        """Return all committed objects of a kind, in one namespace or in all."""
        storage = self._storages[group, version, plural]
        records = storage.store.range(storage.prefix(namespace)).records
        return [storage.serializer.decode_record(record) for record in records]

    def serve_custom(self, storages: Iterable[ResourceStorage]) -> None:
        """Replace all storages of custom resources."""
        own = {key: storage for key, storage in self._storages.items() if not storage.resource.is_custom}
        custom = {(one.resource.group, one.resource.version, one.resource.plural): one for one in storages}
        self._storages = {**custom, **own}

    def storages(self) -> Iterable[ResourceStorage]:
        """Return all storages."""
        return self._storages.values()

    def close_watches(self) -> None:
        """End the watches of all storages."""
        for storage in self._storages.values():
            storage.hub.close()
