"""Writes bootstrap objects: creates missing ones, updates those that describe the server, completes RBAC.

The writes bypass admission and authorization, which need some of these objects themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.conversion import to_storage_version
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import object_meta
from kubeloop.api.scalars.times import format_time
from kubeloop.api.schema import node_of
from kubeloop.apiserver.bootstrap.access_updates import reconcile_rbac
from kubeloop.apiserver.registry.field_manager import set_entries
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry
from kubeloop.clock import Clock, new_uid
from kubeloop.store import DependentConflict, Record, StoreClosed, StoreConflict, StoreError, StoreEvent

MANAGER = "kube-apiserver"
# Depends on how the server was started; all other objects belong to the administrators once created.
_SERVER_DESCRIPTIONS = {
    ("services", "kubernetes"),
    ("endpoints", "kubernetes"),
    ("endpointslices", "kubernetes"),
}
_ACCESS = "rbac.authorization.k8s.io"
_TRY_SECONDS = 1.0
_FURTHER_SLICES = "kubernetes-"  # of servers that listen on other ports


class BootstrapWriter:
    """Writer of bootstrap objects to one server's storages."""

    def __init__(self, registry: StorageRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def ensure(self, objects: Iterable[tuple[Resource, Any]]) -> None:
        """Write objects and wait until all are durable; they share a flush."""
        wanted = list(objects)
        while writes := [write for resource, obj in wanted if (write := self.write(resource, obj)) is not None]:
            results = await asyncio.gather(*writes, return_exceptions=True)
            failures = [one for one in results if isinstance(one, BaseException)]
            if not failures:
                return
            for failure in failures:  # another server may have created some meanwhile
                if not isinstance(failure, StoreConflict | DependentConflict):
                    raise failure

    async def ensure_by_and_by(self, objects: Iterable[tuple[Resource, Any]]) -> None:
        """Write objects one by one, yielding to other requests; retries while the store fails."""
        for resource, obj in objects:
            await self._ensure_one(resource, obj)
            await asyncio.sleep(0)

    async def _ensure_one(self, resource: Resource, obj: Any) -> None:
        while True:
            try:
                if (write := self.write(resource, obj)) is not None:
                    await write
                return
            except (StoreConflict, DependentConflict):
                return  # another server does the same
            except StoreClosed:
                raise
            except StoreError:
                await asyncio.sleep(_TRY_SECONDS)  # a full disk may have room later

    def write(self, resource: Resource, obj: Any) -> asyncio.Future[StoreEvent] | None:
        """Start to create or update an object; None if there is nothing to do."""
        storage = self._registry.of(resource)
        name, namespace = obj.metadata.name, obj.metadata.namespace
        record = storage.peek(namespace, name)
        if record is not None and not _is_server_description(resource, name):
            return _write_completed(storage, record, obj) if resource.group == _ACCESS else None
        fresh = self._prepared(storage, obj, namespace)
        if record is not None:
            return _write_corrected(storage, record, fresh)
        try:
            return storage.store.write(storage.key(namespace, name), encode_stored(fresh), 0)
        except StoreConflict:
            return None  # another server was faster, with the same result

    def _prepared(self, storage: ResourceStorage, obj: Any, namespace: str) -> Any:
        """Return a complete copy as after a create, with the status that a create would drop."""
        resource = storage.resource
        fresh = codec.decode(codec.encode(obj), type(obj))
        apply_defaults(fresh)
        now = self._clock.now()
        object_meta.fill_system_fields(fresh.metadata, namespace, new_uid(self._clock), now)
        plain = codec.to_plain(fresh)
        set_entries(fresh, _entries(plain, resource, format_time(now)))
        stored = to_storage_version(fresh, resource)
        status = getattr(stored, "status", None)
        storage.strategy.prepare_create(stored)
        if status is not None:
            codec.force_setattr(stored, "status", status)
        return stored


def _is_server_description(resource: Resource, name: str) -> bool:
    if (resource.plural, name) in _SERVER_DESCRIPTIONS:
        return True
    return resource.plural == "endpointslices" and name.startswith(_FURTHER_SLICES)


def _entries(plain: dict[str, Any], resource: Resource, now: str) -> list[dict[str, Any]]:
    shape = node_of(resource.definition)
    entries: list[dict[str, Any]] = update_field_owners(
        None, plain, shape, MANAGER, resource.group_version, "", now, [], None
    )
    return entries


def _write_completed(storage: ResourceStorage, record: Record, wanted: Any) -> asyncio.Future[StoreEvent] | None:
    """Write an RBAC object with what it lacks; None if nothing is missing."""
    present = storage.view.decode_stored(record.value, record.mod_revision)
    found = reconcile_rbac(present, wanted)
    if found is present:
        return None
    try:
        return storage.store.write(record.key, encode_stored(found), record.mod_revision)
    except StoreConflict:
        return None


def _write_corrected(storage: ResourceStorage, record: Record, fresh: Any) -> asyncio.Future[StoreEvent] | None:
    """Write the record with new content; None if it is unchanged."""
    old = storage.view.decode_stored(record.value, record.mod_revision)
    corrected = msgspec.structs.replace(fresh, metadata=old.metadata)
    if corrected == old:
        return None
    try:
        return storage.store.write(record.key, encode_stored(corrected), record.mod_revision)
    except StoreConflict:
        return None
