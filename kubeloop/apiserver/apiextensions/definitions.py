# SPDX-License-Identifier: Apache-2.0
"""Stored CustomResourceDefinitions, and the server's own writes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionStatus
from kubeloop.api.meta import object_meta
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.apiserver.apiextensions.naming_conditions import CLEANUP_FINALIZER
from kubeloop.apiserver.registry.existing_object import OwnedObject
from kubeloop.apiserver.registry.field_manager import set_entries
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import Record, StoreConflict, StoreEvent

GROUP, VERSION, PLURAL = "apiextensions.k8s.io", "v1", "customresourcedefinitions"
_MANAGER = "kube-apiserver"


class CRDStore:
    """Reads CRDs, and writes status and finalizers on the newest record."""

    def __init__(self, registry: StorageRegistry, clock: Clock) -> None:
        self._storage: ResourceStorage = registry.storage_named(GROUP, VERSION, PLURAL)
        self._clock = clock

    @property
    def now(self) -> Time:
        """Current time as API timestamp."""
        return object_meta.time_of(self._clock.now())

    def decode(self, record: Record) -> CustomResourceDefinition:
        """Decode a record to a CRD."""
        definition: CustomResourceDefinition = self._storage.serializer.decode_record(record)
        return definition

    def present(self) -> Iterator[Record]:
        """Yield the records of all committed CRDs."""
        yield from self._storage.store.range(self._storage.prefix("")).records

    def newest(self, name: str) -> Record | None:
        """Return the newest record of a CRD, durable or not, or None."""
        return self._storage.peek("", name)

    def write_status(self, record: Record, status: CustomResourceDefinitionStatus) -> None:
        """Write the status without waiting; a concurrent change triggers another sync."""
        current = OwnedObject(self._storage, record)
        definition = replace(self.decode(record), status=status)
        resource, now = self._storage.resource, format_time(self._clock.now())
        write = ManagedWrite(resource.kind, resource.group_version, resource.schema_node, _MANAGER, now, "status")
        entries = update_field_owners(current.plain, current.plain_of(definition), write, current.managed_fields)
        set_entries(definition, entries)
        self._write(record, encode_stored(definition))

    def drop_finalizer(self, record: Record) -> None:
        """Remove the cleanup finalizer; without other finalizers, delete the CRD."""
        definition = self.decode(record)
        remaining = tuple(one for one in definition.metadata.finalizers if one != CLEANUP_FINALIZER)
        codec.force_setattr(definition.metadata, "finalizers", remaining)
        self._write(record, encode_stored(definition) if remaining else None)

    def _write(self, record: Record, value: bytes | None) -> None:
        with suppress(StoreConflict):
            self._storage.store.write(record.key, value, record.mod_revision).add_done_callback(_consume_result)


def _consume_result(write: asyncio.Future[StoreEvent]) -> None:
    """Retrieve the result of a write; a failed flush fails every writer, and the server's own requests report it."""
    if not write.cancelled():
        write.exception()
