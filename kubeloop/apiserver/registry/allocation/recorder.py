"""Keeps records of addresses and node ports beside services, written in the same turn of the loop.

In a store of one server's own both last, or neither. In a shared one a record comes first, and its service not without
it: of two servers that give out the same, one is refused. What a server leaves behind that dies between the two,
`registry.allocation.repair` finds. Nobody else gives out ports of a store that is not shared: no records.
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
from kubeloop.apiserver.registry.allocation.service_cidrs import canonical
from kubeloop.clock import Clock, new_uid
from kubeloop.store import Event, Overtaken, Record, Store

Writes: TypeAlias = list[asyncio.Future[Event]]
PORTS: Final = "/registry/ranges/servicenodeports/"


class PortRecord(msgspec.Struct, frozen=True):
    """Who has a node port."""

    namespace: str
    name: str


class Recorder:
    """Writes who has which address and port."""

    def __init__(self, store: Store, prefix: str, clock: Clock) -> None:
        self.store = store
        self._prefix = prefix
        self._clock = clock

    def holder(self, address: str) -> Record | None:
        return self.store.peek(self._prefix + canonical(address))

    def record(self, address: str, service: ObjectMeta) -> None:
        name = canonical(address)
        value = ip_object(name, service, new_uid(self._clock), self._clock.now())
        self._write(self._prefix + name, value, 0)

    def erase(self, addresses: Iterable[str], ports: Iterable[int], service: ObjectMeta) -> Writes:
        """Give back what a service no longer has."""
        return [*self._erase_addresses(addresses, service), *self._erase_ports(ports, service)]

    def _erase_addresses(self, addresses: Iterable[str], service: ObjectMeta) -> Iterator[asyncio.Future[Event]]:
        for address in addresses:
            held = self.holder(address)
            if held is None:
                continue
            left = without_parent(held.value, service, self._clock.now())
            if left != held.value:
                yield self._write(held.key, left, held.mod_revision)

    def record_ports(self, ports: Iterable[int], service: ObjectMeta) -> None:
        if self.store.shared:
            value = msgspec.json.encode(PortRecord(service.namespace, service.name))
            for port in ports:
                key = f"{PORTS}{port}"
                if self.store.peek(key) is not None:
                    raise Overtaken(key)
                self._write(key, value, 0)

    def _erase_ports(self, ports: Iterable[int], service: ObjectMeta) -> Iterator[asyncio.Future[Event]]:
        owner = PortRecord(service.namespace, service.name)
        for port in ports:
            held = self.store.peek(f"{PORTS}{port}")
            if held is not None and msgspec.json.decode(held.value, type=PortRecord) == owner:
                yield self._write(held.key, None, held.mod_revision)

    def remove(self, record: Record) -> Coroutine[Any, Any, Event]:
        """Take a service out of the store, with all that it holds."""
        written = self.store.write(record.key, None, record.mod_revision)
        service = decode(record.value, Service)
        erased = self.erase(addresses_of(service.spec), ports_of(service.spec), service.metadata)
        return with_all(written, erased)

    def _write(self, key: str, value: bytes | None, expected: int) -> asyncio.Future[Event]:
        # The service's own write fails with it, and tells its writer.
        write = self.store.write(key, value, expected)
        write.add_done_callback(_look_at)
        return write


async def with_all(written: asyncio.Future[Event], erased: Writes) -> Event:
    """A service's write, done when what it gave back can be had by others. It goes on if its writer stops waiting."""
    event = await asyncio.shield(written)
    if erased:
        await asyncio.wait(erased)
    return event


def _look_at(future: asyncio.Future[Event]) -> None:
    if not future.cancelled():
        future.exception()
