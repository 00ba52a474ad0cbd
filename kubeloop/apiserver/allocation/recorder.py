"""Keeps IPAddress objects beside services: written in the same turn of the loop, so that both last, or neither."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kubeloop.api.codec import decode
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.allocation.addresses import addresses_of
from kubeloop.apiserver.allocation.ip_objects import ip_object, without_parent
from kubeloop.apiserver.allocation.networks import canonical
from kubeloop.clock import Clock, new_uid
from kubeloop.store import Event, Record, Store


class Recorder:
    """Writes who has which address."""

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

    def erase(self, addresses: Iterable[str], service: ObjectMeta) -> None:
        for address in addresses:
            held = self.holder(address)
            if held is None:
                continue
            left = without_parent(held.value, service, self._clock.now())
            if left != held.value:
                self._write(held.key, left, held.mod_revision)

    def remove(self, record: Record) -> asyncio.Future[Event]:
        """Take a service out of the store, with all that it holds."""
        future = self.store.write(record.key, None, record.mod_revision)
        service = decode(record.value, Service)
        self.erase(addresses_of(service.spec), service.metadata)
        return future

    def _write(self, key: str, value: bytes | None, expected: int) -> None:
        # The service's own write fails with it, and tells its writer.
        self.store.write(key, value, expected).add_done_callback(_look_at)


def _look_at(future: asyncio.Future[Event]) -> None:
    if not future.cancelled():
        future.exception()
