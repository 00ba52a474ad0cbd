# SPDX-License-Identifier: Apache-2.0
"""Allocations of one Service write: reserved during validation, recorded on write, released on failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.strategy.services import normalize_cluster_ips, patch_allocated_values
from kubeloop.apiserver.registry.allocation.cluster_ips import (
    ALLOCATED,
    address_error,
    addresses_of,
    allocate_any_address,
    allocate_cluster_ips,
    check_parent,
    set_address,
)
from kubeloop.apiserver.registry.allocation.ip_families import default_ip_families
from kubeloop.apiserver.registry.allocation.node_ports import allocate_node_ports, ports_of, update_node_ports
from kubeloop.apiserver.registry.allocation.range_allocator import DryRunAllocator, RangeAllocator
from kubeloop.apiserver.registry.allocation.recorder import AllocationRecorder, Writes, wait_write_and_releases
from kubeloop.apiserver.registry.allocation.service_cidrs import canonical_ip
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.store import DependentConflict, StoreConflict, StoreEvent


class ServiceAllocation:
    """Context manager of one write's allocations: what is not written when it exits is released."""

    def __init__(
        self, recorder: AllocationRecorder, desk: RangeAllocator | DryRunAllocator, families: tuple[str, ...]
    ) -> None:
        self._recorder = recorder
        self._allocator = desk
        self._families = families
        self._new: Service | None = None
        self._held_addresses: tuple[str, ...] = ()
        self._held_ports: set[int] = set()
        self._asked: tuple[str, ...] = ()

    def __enter__(self) -> ServiceAllocation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._allocator, RangeAllocator):
            self._allocator.release(self._allocator.reserved)

    def allocate(self, new: Service, old: Service | None) -> None:
        """Allocate what a Service lacks, before validation. Raises the API error for the client."""
        self._new = new
        if old is not None:
            self._held_addresses = addresses_of(old.spec)
            self._held_ports = ports_of(old.spec)
            patch_allocated_values(new, old)
        normalize_cluster_ips(new, old)
        default_ip_families(new, old, self._families)
        self._asked = new.spec.cluster_ips
        allocate_cluster_ips(new, old, self._allocator)
        if isinstance(self._allocator, RangeAllocator):
            check_parent(new)
        if old is None:
            allocate_node_ports(new, self._allocator)
        else:
            update_node_ports(new, old, self._allocator)

    def write(self, key: str, value: bytes, expected: int) -> Awaitable[StoreEvent]:
        """Write the records and the Service.

        The stored Service differs from `value` in addresses that were recorded by another server meanwhile: these are
        allocated again.
        """
        store, new, desk = self._recorder.store, self._new, self._allocator
        assert new is not None, "allocate() must be called first"
        assert isinstance(desk, RangeAllocator), "a dry run writes nothing"
        current = store.peek(key)
        if expected != (0 if current is None else current.mod_revision):
            raise StoreConflict(current)
        gained = [index for index, address in enumerate(new.spec.cluster_ips) if canonical_ip(address) in desk.reserved]
        drawn_again = [index for index in gained if self._reallocate_if_recorded(new, index)]
        if drawn_again:
            value = encode_stored(new)
        addresses = [new.spec.cluster_ips[index] for index in gained]
        recorded = self._recorder.record(addresses, ports_of(new.spec) & desk.reserved, new.metadata)
        written = store.write(key, value, expected)
        written.add_done_callback(lambda done: self._undo_if_rejected(done, recorded))
        lost, lost_ports = (
            set(self._held_addresses) - set(addresses_of(new.spec)),
            self._held_ports - ports_of(new.spec),
        )
        erased = self._recorder.release(lost, lost_ports, new.metadata)
        # A cancelled waiter ends the claim, but not the write: the reservations stay until that is done.
        promised, desk.reserved = desk.reserved, set()
        written.add_done_callback(lambda _: desk.release(promised))
        return wait_write_and_releases(written, erased)

    def _undo_if_rejected(self, written: asyncio.Future[StoreEvent], recorded: Writes) -> None:
        """Release the records if the Service is known not to be written; otherwise the repair job decides."""
        if not written.cancelled() and isinstance(written.exception(), StoreConflict | DependentConflict):
            self._recorder.undo(recorded)

    def _reallocate_if_recorded(self, new: Service, index: int) -> bool:
        address = new.spec.cluster_ips[index]
        if self._recorder.holder(address) is None:
            return False
        if address in self._asked:
            raise address_error(new, address, ALLOCATED)
        set_address(new.spec, index, allocate_any_address(new, new.spec.ip_families[index], self._allocator))
        return True
