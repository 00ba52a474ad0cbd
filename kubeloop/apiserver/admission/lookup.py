"""Committed objects for plugins to look at, each decoded once a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.apiserver.storage import Registry, Storage
from kubeloop.store import Event, Record

# Enough for the namespaces and service accounts that are in use at a time; beyond it, they are decoded again.
_REMEMBERED = 20_000


class RegistryLookup:
    """The `Lookup` of a server's own storages."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._found: dict[str, tuple[Record, Any]] = {}
        self._lists: dict[str, tuple[Any, ...]] = {}
        self._followed: set[str] = set()

    def find(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None:
        storage = self._registry.named(group, version, plural)
        record = storage.get(namespace, name)
        if record is None:
            return None
        known = self._found.get(record.key)
        if known is not None and known[0] is record:
            return known[1]
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        obj = storage.view.decode_record(record)
        self._found[record.key] = (record, obj)
        return obj

    def every(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> Sequence[Any]:
        storage = self._registry.named(group, version, plural)
        prefix = storage.prefix(namespace)
        known = self._lists.get(prefix)
        if known is None:
            self._follow(storage)
            if len(self._lists) >= _REMEMBERED:
                self._lists.clear()
            records = storage.store.range(prefix).records
            known = self._lists[prefix] = tuple(storage.view.decode_record(record) for record in records)
        return known

    def _follow(self, storage: Storage) -> None:
        """From now on, forget a kind's lists whenever an object of it changes."""
        whole = storage.prefix("")
        if whole in self._followed:
            return
        self._followed.add(whole)

        def forget(events: Sequence[Event]) -> None:
            for prefix in [prefix for prefix in self._lists if prefix.startswith(whole)]:
                del self._lists[prefix]

        storage.store.subscribe(whole, storage.store.revision, forget)
