# SPDX-License-Identifier: Apache-2.0
"""Repairs the records of addresses and ports after a server died between writing a record and its Service.

Needed only for shared stores: otherwise both are one flush. As upstream, a record that seems orphaned is removed only
if it still is at the next run, because a record is written shortly before its Service.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from kubeloop.api.codec import decode
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.networking_v1 import IPAddress
from kubeloop.apiserver.registry.allocation import PortRepairCounters
from kubeloop.apiserver.registry.allocation.cluster_ips import addresses_of
from kubeloop.apiserver.registry.allocation.ip_addresses import MANAGED_BY, MANAGER
from kubeloop.apiserver.registry.allocation.node_ports import ports_of
from kubeloop.apiserver.registry.allocation.recorder import PORTS, AllocationRecorder, PortRecord
from kubeloop.apiserver.registry.allocation.service_cidrs import canonical_ip
from kubeloop.clock import Clock
from kubeloop.store import Record, Store, StoreConflict, StoreError, StoreEvent

log = logging.getLogger(__name__)

REPAIR_SECONDS: Final = 180.0


class AllocationRepair:
    """Periodic repair of allocation records; several servers may run it concurrently."""

    def __init__(self, store: Store, services: str, addresses: str, clock: Clock, ports: PortRepairCounters) -> None:
        self._store = store
        self._ports = ports
        self._services = services
        self._addresses = addresses
        self._recorder = AllocationRecorder(store, addresses, clock)
        self._suspects: dict[str, int] = {}  # orphaned at the last run, with their revisions

    def run_once(self) -> None:
        """Compare records and Services once: add missing records, remove orphaned ones."""
        held: dict[str, ObjectMeta] = {}
        for record in self._store.range(self._services).records:
            service = decode(record.value, Service)
            for key in self._keys_of(service):
                held[key] = service.metadata
        self._add_missing(held)
        self._remove_orphaned(held)

    def _keys_of(self, service: Service) -> Iterator[str]:
        yield from (self._addresses + canonical_ip(address) for address in addresses_of(service.spec))
        yield from (f"{PORTS}{port}" for port in ports_of(service.spec))

    def _add_missing(self, held: dict[str, ObjectMeta]) -> None:
        has_failed = False
        for key, service in held.items():
            if self._store.peek(key) is None:
                log.info("%s of service %s/%s was not allocated; allocated it", key, service.namespace, service.name)
                is_port = key.startswith(PORTS)
                self._ports.errors["repair"] += is_port
                try:
                    if is_port:
                        self._recorder.record((), [int(key.removeprefix(PORTS))], service)
                    else:
                        self._recorder.record([key.removeprefix(self._addresses)], (), service)
                except StoreError:
                    has_failed |= is_port
        self._ports.failures += has_failed

    def _remove_orphaned(self, held: dict[str, ObjectMeta]) -> None:
        records = [*self._store.range(self._addresses).records, *self._store.range(PORTS).records]
        left_over = {one.key: one.mod_revision for one in records if self._is_orphaned(one, held)}
        for key, revision in left_over.items():
            if self._suspects.get(key) == revision:
                log.warning("%s is allocated to a service that does not use it", key)
                self._ports.errors["leak"] += key.startswith(PORTS)
                with suppress(StoreConflict):
                    self._store.write(key, None, revision).add_done_callback(_consume_result)
        self._suspects = left_over

    def _is_orphaned(self, record: Record, held: dict[str, ObjectMeta]) -> bool:
        owner = self._owner(record)
        holder = held.get(record.key)
        return owner is not None and (holder is None or (holder.namespace, holder.name) != owner)

    def _owner(self, record: Record) -> tuple[str, str] | None:
        """Return the Service that a record names; None for objects that users created."""
        if record.key.startswith(PORTS):
            port = msgspec.json.decode(record.value, type=PortRecord)
            return port.namespace, port.name
        address = decode(record.value, IPAddress)
        parent = address.spec.parent_ref
        if address.metadata.labels.get(MANAGED_BY) != MANAGER or parent is None or address.metadata.finalizers:
            return None
        return parent.namespace or "", parent.name


def _consume_result(write: asyncio.Future[StoreEvent]) -> None:
    if not write.cancelled():
        write.exception()
