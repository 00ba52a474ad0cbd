# SPDX-License-Identifier: Apache-2.0
"""Allocation of cluster IPs and node ports of Services: unique and not leaked under concurrent writes.

Service ─ families ─ addresses, ports (reserved) ─ validation ─ IPAddress + Service written in one turn ─ durable

Allocated is what stored Services hold, what an IPAddress records, and what is reserved for a write in progress. Only
the reservations have to be released; a failed write leaves nothing else behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kubeloop.clock import Clock
from kubeloop.metrics import Histogram
from kubeloop.store import Record, Store, StoreEvent

if TYPE_CHECKING:
    from kubeloop.apiserver.registry.allocation.range_allocator import UnavailableItems
    from kubeloop.apiserver.registry.allocation.recorder import AllocationRecorder
    from kubeloop.apiserver.registry.allocation.repair import AllocationRepair
    from kubeloop.apiserver.registry.allocation.service_allocation import ServiceAllocation
    from kubeloop.apiserver.registry.allocation.service_cidrs import ServiceNetworks

ALLOCATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SERVICES = "/registry/services/specs/"
_ADDRESSES = "/registry/ipaddresses/"
_NETWORKS = "/registry/servicecidrs/"


@dataclass(frozen=True)
class ServiceRanges:
    """Ranges of cluster IPs, one network per IP family with the default first, and of node ports."""

    networks: tuple[str, ...] = ("10.0.0.0/24",)
    node_ports: range = range(30000, 32768)


DEFAULT_RANGES = ServiceRanges()


class PortRepairCounters:
    """Wrong records of node ports that the repair found, by type (repair, leak), and its failed runs."""

    __slots__ = ("errors", "failures")

    def __init__(self) -> None:
        self.errors: Counter[str] = Counter()
        self.failures = 0


class ServiceAllocator:
    """Allocator for a server's writes of Services. Reads the store on first use, not at start-up."""

    def __init__(self, store: Store, ranges: ServiceRanges) -> None:
        self._store = store
        self._ranges = ranges
        self.port_repairs = PortRepairCounters()

    def allocation_for_write(self, clock: Clock, dry_run: bool) -> ServiceAllocation:
        """Return the context manager for one write of a Service."""
        from kubeloop.apiserver.registry.allocation.range_allocator import DryRunAllocator, RangeAllocator
        from kubeloop.apiserver.registry.allocation.service_allocation import ServiceAllocation

        desk: RangeAllocator | DryRunAllocator
        if dry_run:
            desk = DryRunAllocator(self._allocated, self._networks)
        else:
            desk = RangeAllocator(self._allocated, self._networks, self._ranges.node_ports, clock)
        return ServiceAllocation(self._recorder(clock), desk, self._families)

    def remove(self, record: Record, clock: Clock) -> Awaitable[StoreEvent]:
        """Delete a Service and release what it holds. Raises `Conflict`."""
        return self._recorder(clock).remove(record)

    def repair(self, clock: Clock) -> AllocationRepair:
        """Return the repair job for the allocation records of a shared store."""
        from kubeloop.apiserver.registry.allocation.repair import AllocationRepair

        return AllocationRepair(self._store, _SERVICES, _ADDRESSES, clock, self.port_repairs)

    def address_counts(self) -> dict[str, tuple[int, int]]:
        """Return the number of allocated addresses and the number of all, by network."""
        from ipaddress import ip_address

        held = [ip_address(one) for one in self._allocated.by_services if isinstance(one, str)]
        networks = [one for family in self._families for one in self._networks.of(family)]
        return {one.cidr: (sum(address in one for address in held), one.size) for one in networks}

    def allocation_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of allocations since the start, by network and scope (static, dynamic)."""
        return dict(self._allocated.allocations)

    def allocation_seconds(self) -> dict[tuple[str, ...], Histogram]:
        """Return the durations of allocations since the start, by network."""
        return {(cidr,): found for cidr, found in self._allocated.allocation_seconds.items()}

    def port_counts(self) -> tuple[int, int]:
        """Return the number of allocated node ports, and of free ones."""
        used = sum(isinstance(one, int) for one in self._allocated.by_services)
        return used, len(self._ranges.node_ports) - used

    def _recorder(self, clock: Clock) -> AllocationRecorder:
        from kubeloop.apiserver.registry.allocation.recorder import AllocationRecorder

        return AllocationRecorder(self._store, _ADDRESSES, clock)

    @cached_property
    def _allocated(self) -> UnavailableItems:
        from kubeloop.apiserver.registry.allocation.allocated import AllocatedByServices
        from kubeloop.apiserver.registry.allocation.range_allocator import UnavailableItems

        return UnavailableItems(self._store, AllocatedByServices(self._store, _SERVICES), _ADDRESSES)

    @cached_property
    def _networks(self) -> ServiceNetworks:
        from kubeloop.apiserver.registry.allocation.service_cidrs import ServiceNetwork, ServiceNetworks

        return ServiceNetworks(self._store, _NETWORKS, map(ServiceNetwork, self._ranges.networks))

    @cached_property
    def _families(self) -> tuple[str, ...]:
        from kubeloop.apiserver.registry.allocation.service_cidrs import ServiceNetwork

        return tuple(dict.fromkeys(ServiceNetwork(cidr).family for cidr in self._ranges.networks))
