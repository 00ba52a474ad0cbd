"""Keeps the server's own objects in the store: makes those that are missing, corrects those that describe the server,
and gives access rules what they lack.

They go past admission and authorization, which need some of them to be there already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.apply.fields.field_owners import track_update
from kubeloop.api.conversion import to_stored
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import object_meta
from kubeloop.api.scalars.times import format_time
from kubeloop.api.schema import node_of
from kubeloop.apiserver.bootstrap.access_updates import completed
from kubeloop.apiserver.registry.field_manager import set_entries
from kubeloop.apiserver.registry.serializer import stored_bytes
from kubeloop.apiserver.registry.storage import Registry, Storage
from kubeloop.clock import Clock, new_uid
from kubeloop.store import Conflict, Event, Overtaken, Record, StoreClosed, StoreError

MANAGER = "kube-apiserver"
# What depends on how the server was started this time; everything else belongs to the administrators once it is made.
_DESCRIBE_THE_SERVER = {
    ("services", "kubernetes"),
    ("endpoints", "kubernetes"),
    ("endpointslices", "kubernetes"),
}
_ACCESS = "rbac.authorization.k8s.io"
_TRY_SECONDS = 1.0
_FURTHER_SLICES = "kubernetes-"  # of servers that listen on other ports


class OwnObjects:
    """Writes bootstrap objects through one server's storages."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def ensure(self, objects: Iterable[tuple[Resource, Any]]) -> None:
        """Returns when all of them are durable; they share a flush."""
        wanted = list(objects)
        while writes := [write for resource, obj in wanted if (write := self.write(resource, obj)) is not None]:
            results = await asyncio.gather(*writes, return_exceptions=True)
            failures = [one for one in results if isinstance(one, BaseException)]
            if not failures:
                return
            for failure in failures:  # another server may have been faster with some, which are there now
                if not isinstance(failure, Conflict | Overtaken):
                    raise failure

    async def ensure_by_and_by(self, objects: Iterable[tuple[Resource, Any]]) -> None:
        """The same, one by one, with others' requests answered in between; however long the store fails."""
        for resource, obj in objects:
            await self._ensure_one(resource, obj)
            await asyncio.sleep(0)

    async def _ensure_one(self, resource: Resource, obj: Any) -> None:
        while True:
            try:
                if (write := self.write(resource, obj)) is not None:
                    await write
                return
            except (Conflict, Overtaken):
                return  # another server does the same
            except StoreClosed:
                raise
            except StoreError:
                await asyncio.sleep(_TRY_SECONDS)  # a disk that is full may have room later

    def write(self, resource: Resource, obj: Any) -> asyncio.Future[Event] | None:
        """Begin to make or correct one; None if there is nothing to do."""
        storage = self._registry.of(resource)
        name, namespace = obj.metadata.name, obj.metadata.namespace
        record = storage.peek(namespace, name)
        if record is not None and not _describes_the_server(resource, name):
            return _completed(storage, record, obj) if resource.group == _ACCESS else None
        fresh = self._prepared(storage, obj, namespace)
        if record is not None:
            return _corrected(storage, record, fresh)
        try:
            return storage.store.write(storage.key(namespace, name), stored_bytes(fresh), 0)
        except Conflict:
            return None  # somebody was faster, which is as good

    def _prepared(self, storage: Storage, obj: Any, namespace: str) -> Any:
        """A copy of its own, complete as after a create, with the status that a create would drop."""
        resource = storage.resource
        fresh = codec.decode(codec.encode(obj), type(obj))
        apply_defaults(fresh)
        now = self._clock.now()
        object_meta.fill_for_create(fresh.metadata, namespace, new_uid(self._clock), now)
        plain = codec.to_plain(fresh)
        set_entries(fresh, _entries(plain, resource, format_time(now)))
        stored = to_stored(fresh, resource)
        status = getattr(stored, "status", None)
        storage.strategy.prepare_create(stored)
        if status is not None:
            codec.force_setattr(stored, "status", status)
        return stored


def _describes_the_server(resource: Resource, name: str) -> bool:
    if (resource.plural, name) in _DESCRIBE_THE_SERVER:
        return True
    return resource.plural == "endpointslices" and name.startswith(_FURTHER_SLICES)


def _entries(plain: dict[str, Any], resource: Resource, now: str) -> list[dict[str, Any]]:
    shape = node_of(resource.definition)
    entries: list[dict[str, Any]] = track_update(None, plain, shape, MANAGER, resource.group_version, "", now, [], None)
    return entries


def _completed(storage: Storage, record: Record, wanted: Any) -> asyncio.Future[Event] | None:
    """The record of an access rule with what it lacks by now."""
    present = storage.view.decode_stored(record.value, record.mod_revision)
    found = completed(present, wanted)
    if found is present:
        return None
    try:
        return storage.store.write(record.key, stored_bytes(found), record.mod_revision)
    except Conflict:
        return None


def _corrected(storage: Storage, record: Record, fresh: Any) -> asyncio.Future[Event] | None:
    """The record with fresh content, if that differs."""
    old = storage.view.decode_stored(record.value, record.mod_revision)
    corrected = msgspec.structs.replace(fresh, metadata=old.metadata)
    if corrected == old:
        return None
    try:
        return storage.store.write(record.key, stored_bytes(corrected), record.mod_revision)
    except Conflict:
        return None
