"""Where addresses and ports are handed out: in earnest, as promises to a write on its way, or for show."""

from __future__ import annotations

from random import Random
from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.apiserver.registry.allocation.allocated import Holdings
from kubeloop.apiserver.registry.allocation.bands import choose, lower_band
from kubeloop.apiserver.registry.allocation.cluster_ips import ALLOCATED, FULL
from kubeloop.apiserver.registry.allocation.node_ports import Refused
from kubeloop.apiserver.registry.allocation.recorder import PORTS
from kubeloop.apiserver.registry.allocation.service_cidrs import Network, Networks, canonical
from kubeloop.store import Store

_PORT_ALLOCATED: Final = "provided port is already allocated"
_PORT_SHARE: Final = 32
_LARGEST_PORT_BAND: Final = 128
_BEFORE_MADE_UP_PORTS: Final = 32768


class Taken:
    """What nobody else may have: held by services, recorded as IPAddress, or promised to a write on its way."""

    def __init__(self, store: Store, holdings: Holdings, ip_prefix: str) -> None:
        self._store = store
        self._holdings = holdings
        self._ip_prefix = ip_prefix
        self.promised: set[str | int] = set()

    def __contains__(self, item: str | int) -> bool:
        if item in self.promised or item in self._holdings:
            return True
        prefix = self._ip_prefix if isinstance(item, str) else PORTS
        return self._store.peek(f"{prefix}{item}") is not None


class Desk:
    """Hands out in earnest; remembers what was promised to one write."""

    def __init__(self, taken: Taken, networks: Networks, ports: range, random: Random) -> None:
        self._taken = taken
        self._networks = networks
        self._ports = ports
        self._random = random
        self.promised: set[str | int] = set()

    def take(self, port: int) -> None:
        if port not in self._ports:
            valid = f"{self._ports[0]}-{self._ports[-1]}"
            raise Refused(f"provided port is not in the valid range. The range of valid ports is {valid}")
        if port in self._taken:
            raise Refused(_PORT_ALLOCATED)
        self._promise(port)

    def take_any(self) -> int:
        size, first = len(self._ports), self._ports[0]
        lower = lower_band(size, _PORT_SHARE, _LARGEST_PORT_BAND)
        offset = choose(size, lower, lambda offset: first + offset in self._taken, self._random)
        if offset is None:
            raise Refused(FULL)
        self._promise(first + offset)
        return first + offset

    def take_address(self, address: str) -> None:
        wanted = parse_ip(address)
        if wanted is None or not any(wanted in network for network in self._networks.of(f"IPv{wanted.version}")):
            raise Refused("the provided network does not match the current range")
        if canonical(address) in self._taken:
            raise Refused(ALLOCATED)
        self._promise(canonical(address))

    def take_any_address(self, family: str) -> str:
        for network in self._networks.of(family):
            address = network.choose(self._taken.__contains__, self._random)
            if address is not None:
                self._promise(address)
                return address
        raise Refused(FULL)

    def _promise(self, item: str | int) -> None:
        self.promised.add(item)
        self._taken.promised.add(item)

    def hand_back(self, promised: set[str | int]) -> None:
        """These promises are kept, or no longer needed."""
        self._taken.promised -= promised


class DryDesk:
    """Hands out for show, as upstream does: made-up values, and fewer checks."""

    def __init__(self, taken: Taken, networks: Networks) -> None:
        self._taken = taken
        self._networks = networks
        self._shown: set[int] = set()

    def take(self, port: int) -> None:
        if port in self._taken or port in self._shown:
            raise Refused(_PORT_ALLOCATED)
        self._shown.add(port)

    def take_any(self) -> int:
        port = max(self._shown, default=_BEFORE_MADE_UP_PORTS) + 1
        self._shown.add(port)
        return port

    def take_address(self, address: str) -> None:
        wanted = parse_ip(address)
        network = self._network(f"IPv{wanted.version}" if wanted is not None else "")
        if wanted is None or wanted not in network:
            valid = f"The range of valid IPs is {network.cidr}"
            raise Refused(f"the provided IP ({canonical(address)}) is not in the valid range. {valid}")

    def take_any_address(self, family: str) -> str:
        return self._network(family).placeholder

    def _network(self, family: str) -> Network:
        for network in self._networks.of(family):
            return network
        raise Refused("allocator not ready")
