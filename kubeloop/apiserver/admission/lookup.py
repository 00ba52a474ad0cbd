# SPDX-License-Identifier: Apache-2.0
"""Lookup of committed objects for plugins; each object is decoded once per change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kubeloop.apiserver.admission import LookupRecord
from kubeloop.apiserver.background.offload import WAITING_LOOP, call_on_owner
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry
from kubeloop.store import Record, StoreEvent

# Enough for the namespaces and service accounts in use at a time; above it, objects are decoded again.
_MAX_CACHED = 20_000


class _CachedObject(NamedTuple):
    """Cached object with the record that it was decoded from."""

    record: Record
    obj: Any


class RegistryLookup:
    """Lookup in a server's own storages. The cache is keyed by the arguments, so that no store key is built."""

    def __init__(self, registry: StorageRegistry) -> None:
        self._registry = registry
        self._get = registry.store.get
        self.records: list[LookupRecord] | None = None  # lookups are recorded here unless it is None
        self._objects: dict[tuple[str, str, str, str, str], _CachedObject] = {}
        # Current lists, by group, version and plural, then by namespace.
        self._lists: dict[tuple[str, str, str], dict[str, tuple[Any, ...]]] = {}

    def get_object(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None:
        """Return an object by name, or None; decoded again only if its record has changed."""
        question = (plural, namespace, name, group, version)
        if WAITING_LOOP.get() is None:  # as nearly always, and then without a further frame
            return self._get_object(question)
        return call_on_owner(self._get_object, question)

    def _get_object(self, question: tuple[str, str, str, str, str]) -> Any | None:
        known = self._objects.get(question)
        fresh = known is not None and self._get(known.record.key) is known.record
        obj = known.obj if known is not None and fresh else self._lookup(question)
        if self.records is not None:
            self.records.append(LookupRecord(self.get_object, question, obj))
        return obj

    def _lookup(self, question: tuple[str, str, str, str, str]) -> Any | None:
        plural, namespace, name, group, version = question
        storage = self._registry.storage_named(group, version, plural)
        record = storage.get(namespace, name)
        if record is None:
            self._objects.pop(question, None)
            return None
        if len(self._objects) >= _MAX_CACHED:
            self._objects.clear()
        obj = storage.serializer.decode_record(record)
        self._objects[question] = _CachedObject(record, obj)
        return obj

    def list_objects(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> Sequence[Any]:
        """Return all objects of a kind, in one namespace or in all; cached until one of them changes."""
        if WAITING_LOOP.get() is None:
            return self._list_objects(plural, namespace, group, version)
        return call_on_owner(self._list_objects, plural, namespace, group, version)

    def _list_objects(self, plural: str, namespace: str, group: str, version: str) -> Sequence[Any]:
        kind = (group, version, plural)
        lists = self._lists.get(kind)
        if lists is None:
            lists = self._lists[kind] = self._list_cache(self._registry.storage_named(*kind))
        known = lists.get(namespace)
        if known is None:
            if len(lists) >= _MAX_CACHED:
                lists.clear()
            known = lists[namespace] = self._read(self._registry.storage_named(*kind), namespace)
        if self.records is not None:
            self.records.append(LookupRecord(self.list_objects, (plural, namespace, group, version), known))
        return known

    def _list_cache(self, storage: ResourceStorage) -> dict[str, tuple[Any, ...]]:
        """Return a cache of a kind's lists that is cleared by every change of the kind."""
        lists: dict[str, tuple[Any, ...]] = {}

        def forget(events: Sequence[StoreEvent]) -> None:
            lists.clear()

        storage.store.subscribe(storage.prefix(""), storage.store.revision, forget)
        return lists

    def _read(self, storage: ResourceStorage, namespace: str) -> tuple[Any, ...]:
        records = storage.store.range(storage.prefix(namespace)).records
        return tuple(storage.serializer.decode_record(record) for record in records)
