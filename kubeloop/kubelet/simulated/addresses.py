"""Addresses of simulated nodes and pods: each pod one of each of its node's networks, none twice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network

# A network of 256 addresses for each of 32,768 nodes, where nobody has given a node its own.
_PODS = ip_network("10.128.0.0/9")
_NODES = ip_network("172.16.0.0/12")
_SIZE = 256
# Of a network that is larger, only so many addresses are looked through.
_LARGEST = 1 << 16

Network = IPv4Network | IPv6Network


def node_address(number: int) -> str:
    """The address of the n-th node, counted from 1."""
    return str(_NODES[number])


def address_of_name(name: str) -> str:
    """An address for a node that nobody counts, the same whenever it is asked for."""
    low = int(_NODES.num_addresses / 2)  # the first half is for those that are counted
    return str(_NODES[low + int.from_bytes(sha256(name.encode()).digest()[:4], "big") % low])


class _Pool:
    """The addresses of one node's pods, the network's own and the gateway's apart."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._next = 2

    def take(self, taken: set[str]) -> str:
        size = min(self._network.num_addresses, _LARGEST)
        for _ in range(size):
            address = str(self._network[self._next])
            self._next = self._next + 1 if self._next + 2 < size else 2
            if address not in taken:
                taken.add(address)
                return address
        raise OverflowError(f"no address is left in {self._network}")


class Addresses:
    """All pods' addresses; `networks_of` tells the networks that a node was given, if it was."""

    def __init__(self, networks_of: Callable[[str], Iterable[str]]) -> None:
        self._networks_of = networks_of
        self._pools: dict[str, list[_Pool]] = {}
        self._first = 0
        # Of all nodes: after a restart a node may have another network than the one its pods are from.
        self._taken: set[str] = set()

    def apart(self, name: str) -> None:
        """Begin elsewhere than others who have no networks of their nodes' own either: where a name says."""
        self._first = int.from_bytes(sha256(name.encode()).digest()[:4], "big")

    def take(self, node: str) -> tuple[str, ...]:
        """Free addresses on a node, one of each network."""
        pools = self._pools.get(node)
        if pools is None:
            pools = self._pools[node] = [_Pool(one) for one in self._networks(node, len(self._pools))]
        return tuple(pool.take(self._taken) for pool in pools)

    def claim(self, addresses: Iterable[str]) -> None:
        """Addresses that a pod has already."""
        self._taken.update(addresses)

    def release(self, addresses: Iterable[str]) -> None:
        self._taken.difference_update(addresses)

    def _networks(self, node: str, number: int) -> list[Network]:
        given = [ip_network(one, strict=False) for one in self._networks_of(node)]
        usable = [one for one in given if one.num_addresses >= 4]
        place = (self._first + number) % (_PODS.num_addresses // _SIZE)
        return usable or [IPv4Network((int(_PODS.network_address) + place * _SIZE, 24))]
