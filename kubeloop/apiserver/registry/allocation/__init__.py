"""Allocation of cluster IPs and node ports of Services: unique and not leaked under concurrent writes.

Service ─ families ─ addresses, ports (reserved) ─ validation ─ IPAddress + Service written in one turn ─ durable

Allocated is what stored Services hold, what an IPAddress records, and what is reserved for a write in progress. Only
the reservations have to be released; a failed write leaves nothing else behind.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kubeloop.clock import Clock
from kubeloop.store import Event, Record, Store

if TYPE_CHECKING:
    from kubeloop.apiserver.registry.allocation.range_allocator import Taken
    from kubeloop.apiserver.registry.allocation.recorder import Recorder
    from kubeloop.apiserver.registry.allocation.repair import Repair
    from kubeloop.apiserver.registry.allocation.service_allocation import Claim
    from kubeloop.apiserver.registry.allocation.service_cidrs import Networks

_SERVICES = "/registry/services/specs/"
_ADDRESSES = "/registry/ipaddresses/"
_NETWORKS = "/registry/servicecidrs/"


@dataclass(frozen=True)
class ServiceRanges:
    """Ranges of cluster IPs, one network per IP family with the default first, and of node ports."""

    networks: tuple[str, ...] = ("10.0.0.0/24",)
    node_ports: range = range(30000, 32768)


DEFAULT_RANGES = ServiceRanges()


class ServiceAllocator:
    """Allocator for a server's writes of Services. Reads the store on first use, not at start-up."""

    def __init__(self, store: Store, ranges: ServiceRanges) -> None:
        self._store = store
        self._ranges = ranges

    def claim(self, clock: Clock, dry_run: bool) -> Claim:
        """Return the context manager for one write of a Service."""
        from kubeloop.apiserver.registry.allocation.range_allocator import Desk, DryDesk
        from kubeloop.apiserver.registry.allocation.service_allocation import Claim

        desk: Desk | DryDesk
        if dry_run:
            desk = DryDesk(self._taken, self._networks)
        else:
            desk = Desk(self._taken, self._networks, self._ranges.node_ports, clock.random())
        return Claim(self._recorder(clock), desk, self._families)

    def remove(self, record: Record, clock: Clock) -> Awaitable[Event]:
        """Delete a Service and release what it holds. Raises `Conflict`."""
        return self._recorder(clock).remove(record)

    def repair(self, clock: Clock) -> Repair:
        """Return the repair job for the allocation records of a shared store."""
        from kubeloop.apiserver.registry.allocation.repair import Repair

        return Repair(self._store, _SERVICES, _ADDRESSES, clock)

    def _recorder(self, clock: Clock) -> Recorder:
        from kubeloop.apiserver.registry.allocation.recorder import Recorder

        return Recorder(self._store, _ADDRESSES, clock)

    @cached_property
    def _taken(self) -> Taken:
        from kubeloop.apiserver.registry.allocation.allocated import Holdings
        from kubeloop.apiserver.registry.allocation.range_allocator import Taken

        return Taken(self._store, Holdings(self._store, _SERVICES), _ADDRESSES)

    @cached_property
    def _networks(self) -> Networks:
        from kubeloop.apiserver.registry.allocation.service_cidrs import Network, Networks

        return Networks(self._store, _NETWORKS, map(Network, self._ranges.networks))

    @cached_property
    def _families(self) -> tuple[str, ...]:
        from kubeloop.apiserver.registry.allocation.service_cidrs import Network

        return tuple(dict.fromkeys(Network(cidr).family for cidr in self._ranges.networks))
