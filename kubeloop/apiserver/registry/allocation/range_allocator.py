# SPDX-License-Identifier: Apache-2.0
"""Range allocators of addresses and ports: reserving for a write in progress, or simulating for a dry run."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.apiserver.registry.allocation import ALLOCATION_BOUNDS
from kubeloop.apiserver.registry.allocation.allocated import AllocatedByServices
from kubeloop.apiserver.registry.allocation.bands import choose_free_offset, lower_band_size
from kubeloop.apiserver.registry.allocation.cluster_ips import ALLOCATED, FULL
from kubeloop.apiserver.registry.allocation.node_ports import RangeAllocationError
from kubeloop.apiserver.registry.allocation.recorder import PORTS
from kubeloop.apiserver.registry.allocation.service_cidrs import ServiceNetwork, ServiceNetworks, canonical_ip
from kubeloop.clock import Clock
from kubeloop.metrics import Histogram
from kubeloop.store import Store

_PORT_ALLOCATED: Final = "provided port is already allocated"
_PORT_SHARE: Final = 32
_LARGEST_PORT_BAND: Final = 128
_BEFORE_MADE_UP_PORTS: Final = 32768


class UnavailableItems:
    """Set of unavailable items: held by Services, recorded as IPAddress, or reserved for a write in progress."""

    def __init__(self, store: Store, allocated: AllocatedByServices, ip_prefix: str) -> None:
        self._store = store
        self.by_services = allocated
        self._ip_prefix = ip_prefix
        self.reserved: set[str | int] = set()
        self.allocations: Counter[tuple[str, str]] = Counter()  # by network, and static or dynamic
        self.allocation_seconds: dict[str, Histogram] = {}  # by network

    def count_allocation(self, cidr: str, scope: str, seconds: float) -> None:
        """Count an allocated address of a network: `static` (asked for) or `dynamic`."""
        self.allocations[cidr, scope] += 1
        if cidr not in self.allocation_seconds:
            self.allocation_seconds[cidr] = Histogram(ALLOCATION_BOUNDS)
        self.allocation_seconds[cidr].observe(seconds)

    def __contains__(self, item: str | int) -> bool:
        if item in self.reserved or item in self.by_services:
            return True
        prefix = self._ip_prefix if isinstance(item, str) else PORTS
        return self._store.peek(f"{prefix}{item}") is not None


class RangeAllocator:
    """Range allocator; remembers the reservations of one write."""

    def __init__(self, taken: UnavailableItems, networks: ServiceNetworks, ports: range, clock: Clock) -> None:
        self._unavailable = taken
        self._networks = networks
        self._ports = ports
        self._random = clock.random()
        self._monotonic = clock.monotonic
        self.reserved: set[str | int] = set()

    def allocate_port(self, port: int) -> None:
        """Reserve this port. Raises `Refused`."""
        if port not in self._ports:
            valid = f"{self._ports[0]}-{self._ports[-1]}"
            raise RangeAllocationError(f"provided port is not in the valid range. The range of valid ports is {valid}")
        if port in self._unavailable:
            raise RangeAllocationError(_PORT_ALLOCATED)
        self._reserve(port)

    def allocate_next_port(self) -> int:
        """Reserve a free port. Raises `Refused`."""
        size, first = len(self._ports), self._ports[0]
        lower = lower_band_size(size, _PORT_SHARE, _LARGEST_PORT_BAND)
        offset = choose_free_offset(size, lower, lambda offset: first + offset in self._unavailable, self._random)
        if offset is None:
            raise RangeAllocationError(FULL)
        self._reserve(first + offset)
        return first + offset

    def allocate(self, address: str) -> None:
        """Reserve this address. Raises `Refused`."""
        began = self._monotonic()
        wanted = parse_ip(address)
        networks = [] if wanted is None else self._networks.of(f"IPv{wanted.version}")
        network = next((one for one in networks if wanted is not None and wanted in one), None)
        if network is None:
            raise RangeAllocationError("the provided network does not match the current range")
        if canonical_ip(address) in self._unavailable:
            raise RangeAllocationError(ALLOCATED)
        self._reserve(canonical_ip(address))
        self._unavailable.count_allocation(network.cidr, "static", self._monotonic() - began)

    def allocate_next(self, family: str) -> str:
        """Reserve a free address of a family. Raises `Refused`."""
        began = self._monotonic()
        for network in self._networks.of(family):
            address = network.choose_free_address(self._unavailable.__contains__, self._random)
            if address is not None:
                self._reserve(address)
                self._unavailable.count_allocation(network.cidr, "dynamic", self._monotonic() - began)
                return address
        raise RangeAllocationError(FULL)

    def _reserve(self, item: str | int) -> None:
        self.reserved.add(item)
        self._unavailable.reserved.add(item)

    def release(self, promised: set[str | int]) -> None:
        """Release these reservations: they have been written, or are no longer needed."""
        self._unavailable.reserved -= promised


class DryRunAllocator:
    """Dry-run allocator: placeholder values and fewer checks, as upstream."""

    def __init__(self, taken: UnavailableItems, networks: ServiceNetworks) -> None:
        self._unavailable = taken
        self._networks = networks
        self._simulated: set[int] = set()

    def allocate_port(self, port: int) -> None:
        """Accept this port unless it is taken. Raises `Refused`."""
        if port in self._unavailable or port in self._simulated:
            raise RangeAllocationError(_PORT_ALLOCATED)
        self._simulated.add(port)

    def allocate_next_port(self) -> int:
        """Return a placeholder port."""
        port = max(self._simulated, default=_BEFORE_MADE_UP_PORTS) + 1
        self._simulated.add(port)
        return port

    def allocate(self, address: str) -> None:
        """Accept this address if it is in range, even if it is taken, as upstream's dry run. Raises `Refused`."""
        wanted = parse_ip(address)
        network = self._network(f"IPv{wanted.version}" if wanted is not None else "")
        if wanted is None or wanted not in network:
            valid = f"The range of valid IPs is {network.cidr}"
            raise RangeAllocationError(f"the provided IP ({canonical_ip(address)}) is not in the valid range. {valid}")

    def allocate_next(self, family: str) -> str:
        """Return the placeholder address of a family's network."""
        return self._network(family).placeholder

    def _network(self, family: str) -> ServiceNetwork:
        for network in self._networks.of(family):
            return network
        raise RangeAllocationError("allocator not ready")
