"""Range allocators of addresses and ports: reserving for a write in progress, or simulating for a dry run."""

from __future__ import annotations

from random import Random
from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.apiserver.registry.allocation.allocated import AllocatedByServices
from kubeloop.apiserver.registry.allocation.bands import choose_free_offset, lower_band_size
from kubeloop.apiserver.registry.allocation.cluster_ips import ALLOCATED, FULL
from kubeloop.apiserver.registry.allocation.node_ports import RangeAllocationError
from kubeloop.apiserver.registry.allocation.recorder import PORTS
from kubeloop.apiserver.registry.allocation.service_cidrs import ServiceNetwork, ServiceNetworks, canonical_ip
from kubeloop.store import Store

_PORT_ALLOCATED: Final = "provided port is already allocated"
_PORT_SHARE: Final = 32
_LARGEST_PORT_BAND: Final = 128
_BEFORE_MADE_UP_PORTS: Final = 32768


class UnavailableItems:
    """Set of unavailable items: held by Services, recorded as IPAddress, or reserved for a write in progress."""

    def __init__(self, store: Store, holdings: AllocatedByServices, ip_prefix: str) -> None:
        self._store = store
        self._holdings = holdings
        self._ip_prefix = ip_prefix
        self.promised: set[str | int] = set()

    def __contains__(self, item: str | int) -> bool:
        if item in self.promised or item in self._holdings:
            return True
        prefix = self._ip_prefix if isinstance(item, str) else PORTS
        return self._store.peek(f"{prefix}{item}") is not None


class RangeAllocator:
    """Range allocator; remembers the reservations of one write."""

    def __init__(self, taken: UnavailableItems, networks: ServiceNetworks, ports: range, random: Random) -> None:
        self._taken = taken
        self._networks = networks
        self._ports = ports
        self._random = random
        self.promised: set[str | int] = set()

    def take(self, port: int) -> None:
        """Reserve this port. Raises `Refused`."""
        if port not in self._ports:
            valid = f"{self._ports[0]}-{self._ports[-1]}"
            raise RangeAllocationError(f"provided port is not in the valid range. The range of valid ports is {valid}")
        if port in self._taken:
            raise RangeAllocationError(_PORT_ALLOCATED)
        self._promise(port)

    def take_any(self) -> int:
        """Reserve a free port. Raises `Refused`."""
        size, first = len(self._ports), self._ports[0]
        lower = lower_band_size(size, _PORT_SHARE, _LARGEST_PORT_BAND)
        offset = choose_free_offset(size, lower, lambda offset: first + offset in self._taken, self._random)
        if offset is None:
            raise RangeAllocationError(FULL)
        self._promise(first + offset)
        return first + offset

    def take_address(self, address: str) -> None:
        """Reserve this address. Raises `Refused`."""
        wanted = parse_ip(address)
        if wanted is None or not any(wanted in network for network in self._networks.of(f"IPv{wanted.version}")):
            raise RangeAllocationError("the provided network does not match the current range")
        if canonical_ip(address) in self._taken:
            raise RangeAllocationError(ALLOCATED)
        self._promise(canonical_ip(address))

    def take_any_address(self, family: str) -> str:
        """Reserve a free address of a family. Raises `Refused`."""
        for network in self._networks.of(family):
            address = network.choose(self._taken.__contains__, self._random)
            if address is not None:
                self._promise(address)
                return address
        raise RangeAllocationError(FULL)

    def _promise(self, item: str | int) -> None:
        self.promised.add(item)
        self._taken.promised.add(item)

    def hand_back(self, promised: set[str | int]) -> None:
        """Release these reservations: they have been written, or are no longer needed."""
        self._taken.promised -= promised


class DryRunAllocator:
    """Dry-run allocator: placeholder values and fewer checks, as upstream."""

    def __init__(self, taken: UnavailableItems, networks: ServiceNetworks) -> None:
        self._taken = taken
        self._networks = networks
        self._shown: set[int] = set()

    def take(self, port: int) -> None:
        """Accept this port unless it is taken. Raises `Refused`."""
        if port in self._taken or port in self._shown:
            raise RangeAllocationError(_PORT_ALLOCATED)
        self._shown.add(port)

    def take_any(self) -> int:
        """Return a placeholder port."""
        port = max(self._shown, default=_BEFORE_MADE_UP_PORTS) + 1
        self._shown.add(port)
        return port

    def take_address(self, address: str) -> None:
        """Accept this address if it is in range, even if it is taken, as upstream's dry run. Raises `Refused`."""
        wanted = parse_ip(address)
        network = self._network(f"IPv{wanted.version}" if wanted is not None else "")
        if wanted is None or wanted not in network:
            valid = f"The range of valid IPs is {network.cidr}"
            raise RangeAllocationError(f"the provided IP ({canonical_ip(address)}) is not in the valid range. {valid}")

    def take_any_address(self, family: str) -> str:
        """Return the placeholder address of a family's network."""
        return self._network(family).placeholder

    def _network(self, family: str) -> ServiceNetwork:
        for network in self._networks.of(family):
            return network
        raise RangeAllocationError("allocator not ready")
