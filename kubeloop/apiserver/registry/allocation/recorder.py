# SPDX-License-Identifier: Apache-2.0
"""Records of allocated addresses and node ports, written beside their Service in the same turn of the loop.

In a store of a single server, both become durable or neither. In a shared store the record is written first, and the
Service only with it: if two servers allocate the same item, one is rejected, and the other records of its Service are
deleted again. `registry.allocation.repair` removes what a server leaves behind that dies in between. Without a shared
store, there are no records of ports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from kubeloop.api.codec import decode
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.registry.allocation.cluster_ips import addresses_of
from kubeloop.apiserver.registry.allocation.ip_addresses import ip_object, without_parent
from kubeloop.apiserver.registry.allocation.node_ports import ports_of
from kubeloop.apiserver.registry.allocation.service_cidrs import canonical_ip
from kubeloop.clock import Clock, new_uid
from kubeloop.store import DependentConflict, Record, Store, StoreEvent

Writes: TypeAlias = list[asyncio.Future[StoreEvent]]
PORTS: Final = "/registry/ranges/servicenodeports/"


class PortRecord(msgspec.Struct, frozen=True):
    """Record of the Service that holds a node port."""

    namespace: str
    name: str


class AllocationRecorder:
    """Writes the records of addresses and ports."""

    def __init__(self, store: Store, prefix: str, clock: Clock) -> None:
        self.store = store
        self._prefix = prefix
        self._clock = clock

    def holder(self, address: str) -> Record | None:
        """Return the IPAddress record of an address, or None."""
        return self.store.peek(self._prefix + canonical_ip(address))

    def record(self, addresses: Iterable[str], ports: Iterable[int], service: ObjectMeta) -> Writes:
        """Write the records of what a Service holds; they are flushed with the Service, which is written later.

        Raises `DependentConflict` if another server has recorded a port.
        """
        recorded = [self._record_address(address, service) for address in addresses]
        try:
            self._record_ports(ports, service, recorded)
        except DependentConflict:
            self.undo(recorded)
            raise
        return recorded

    def undo(self, recorded: Writes) -> None:
        """Delete records whose Service is known not to be written, once they are written themselves."""
        for write in recorded:
            write.add_done_callback(self._erase)

    def _erase(self, write: asyncio.Future[StoreEvent]) -> None:
        if write.cancelled() or write.exception() is not None:
            return
        event = write.result()
        if event.record is not None:
            _ = self._write(event.key, None, event.record.mod_revision)

    def _record_address(self, address: str, service: ObjectMeta) -> asyncio.Future[StoreEvent]:
        name = canonical_ip(address)
        value = ip_object(name, service, new_uid(self._clock), self._clock.now())
        return self._write(self._prefix + name, value, 0)

    def release(self, addresses: Iterable[str], ports: Iterable[int], service: ObjectMeta) -> Writes:
        """Delete the records of what a Service no longer holds."""
        return [*self._release_addresses(addresses, service), *self._release_ports(ports, service)]

    def _release_addresses(self, addresses: Iterable[str], service: ObjectMeta) -> Iterator[asyncio.Future[StoreEvent]]:
        for address in addresses:
            held = self.holder(address)
            if held is None:
                continue
            left = without_parent(held.value, service, self._clock.now())
            if left != held.value:
                yield self._write(held.key, left, held.mod_revision)

    def _record_ports(self, ports: Iterable[int], service: ObjectMeta, recorded: Writes) -> None:
        """Write the records of a Service's ports, in a shared store; raises `DependentConflict` if one exists."""
        if self.store.is_shared:
            value = msgspec.json.encode(PortRecord(service.namespace, service.name))
            for port in ports:
                key = f"{PORTS}{port}"
                if self.store.peek(key) is not None:
                    raise DependentConflict(key)
                recorded.append(self._write(key, value, 0))

    def _release_ports(self, ports: Iterable[int], service: ObjectMeta) -> Iterator[asyncio.Future[StoreEvent]]:
        owner = PortRecord(service.namespace, service.name)
        for port in ports:
            held = self.store.peek(f"{PORTS}{port}")
            if held is not None and msgspec.json.decode(held.value, type=PortRecord) == owner:
                yield self._write(held.key, None, held.mod_revision)

    def remove(self, record: Record) -> Coroutine[Any, Any, StoreEvent]:
        """Delete a Service with the records of all that it holds."""
        written = self.store.write(record.key, None, record.mod_revision)
        service = decode(record.value, Service)
        erased = self.release(addresses_of(service.spec), ports_of(service.spec), service.metadata)
        return wait_write_and_releases(written, erased)

    def _write(self, key: str, value: bytes | None, expected: int) -> asyncio.Future[StoreEvent]:
        # The Service's own write fails with it, and reports the error.
        write = self.store.write(key, value, expected)
        write.add_done_callback(_consume_result)
        return write


async def wait_write_and_releases(written: asyncio.Future[StoreEvent], erased: Writes) -> StoreEvent:
    """Wait for a Service's write and for the deletion of records. The write continues if its waiter is cancelled."""
    event = await asyncio.shield(written)
    if erased:
        await asyncio.wait(erased)
    return event


def _consume_result(future: asyncio.Future[StoreEvent]) -> None:
    if not future.cancelled():
        future.exception()
