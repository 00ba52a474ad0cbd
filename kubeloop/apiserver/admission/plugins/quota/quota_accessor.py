# SPDX-License-Identifier: Apache-2.0
"""Current usage of ResourceQuotas, and the writes that charge them.

A charge is visible to the next write before either is durable. It gets a lower revision than its object, so that no
object becomes durable without its charge; as upstream, a charge whose object is not stored in the end remains until
the quota controller recalculates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Quantity
from kubeloop.api.schema import node_of
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.bootstrap.writer import MANAGER
from kubeloop.apiserver.registry.existing_object import OwnedObject
from kubeloop.apiserver.registry.field_manager import set_entries, settable_fields_of
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.store import StoreEvent

if TYPE_CHECKING:
    from kubeloop.api.generated.core_v1 import ResourceQuota
    from kubeloop.api.quota import QuotaUsage


class QuotaAccessor(Protocol):
    """Access of quota admission to ResourceQuotas."""

    def get_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the quotas of a namespace with their current usage."""

    def update_quota_status(self, charge: QuotaUsage, now: datetime) -> None:
        """Write a quota's new usage."""


class StoreQuotaAccessor:
    """Quota accessor of a server's own store."""

    def __init__(self, registry: StorageRegistry, lookup: Lookup) -> None:
        self._storage = registry.storage_named("", "v1", "resourcequotas")
        self._every = lookup.list_objects

    def get_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the namespace's quotas including all charges, durable or not."""
        known: Sequence[ResourceQuota] = self._every("resourcequotas", namespace)
        return [newest for quota in known if (newest := self._newest(quota)) is not None] if known else known

    def _newest(self, quota: ResourceQuota) -> ResourceQuota | None:
        record = self._storage.peek(quota.metadata.namespace, quota.metadata.name)
        if record is None:
            return None
        if str(record.mod_revision) == quota.metadata.resource_version:
            return quota
        newest: ResourceQuota = self._storage.serializer.decode_record(record)
        return newest

    def update_quota_status(self, charge: QuotaUsage, now: datetime) -> None:
        """Write a quota's new usage; must run in the same turn of the event loop as the read."""
        storage = self._storage
        record = storage.peek(charge.quota.metadata.namespace, charge.quota.metadata.name)
        assert record is not None, "the quota was read earlier in this evaluation"
        current = OwnedObject(storage, record)
        used = {name: Quantity(str(charge.used[name])) for name in sorted(charge.used)}
        status = msgspec.structs.replace(current.stored.status, used=used)
        metadata = msgspec.structs.replace(current.stored.metadata)
        charged = msgspec.structs.replace(current.stored, metadata=metadata, status=status)
        resource, settable = storage.resource, settable_fields_of(storage.strategy, "status")
        node, version = node_of(resource.definition), resource.group_version
        write = ManagedWrite(resource.kind, version, node, MANAGER, format_time(now), "status", settable)
        new = current.plain_of(msgspec.structs.replace(charged, metadata=current.served.metadata))
        set_entries(charged, update_field_owners(current.plain, new, write, current.managed_fields))
        future = storage.store.write(record.key, encode_stored(charged), record.mod_revision)
        future.add_done_callback(_consume_result)


def _consume_result(future: asyncio.Future[StoreEvent]) -> None:
    """Retrieve the result of a write; a failed flush is reported by the object's own write, which comes later."""
    if not future.cancelled():
        future.exception()
