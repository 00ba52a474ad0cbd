"""Addresses of simulated nodes and pods: each pod one of its node's network, none twice at a time."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv4Network, ip_network

# A network of 256 addresses for each of 32,768 nodes, where nobody has given a node its own.
_PODS = ip_network("10.128.0.0/9")
_NODES = ip_network("172.16.0.0/12")
_SIZE = 256


def node_address(number: int) -> str:
    """The address of the n-th node, counted from 1."""
    return str(_NODES[number])


def address_of_name(name: str) -> str:
    """An address for a node that nobody counts, the same whenever it is asked for."""
    low = int(_NODES.num_addresses / 2)  # the first half is for those that are counted
    return str(_NODES[low + int.from_bytes(sha256(name.encode()).digest()[:4], "big") % low])


class _Pool:
    """The addresses of one node's pods, the network's own and the gateway's apart."""

    def __init__(self, network: IPv4Network) -> None:
        self._network = network
        self._next = 2

    def take(self, taken: set[str]) -> str:
        size = self._network.num_addresses
        for _ in range(size):
            address = str(self._network[self._next])
            self._next = self._next + 1 if self._next + 2 < size else 2
            if address not in taken:
                taken.add(address)
                return address
        raise OverflowError(f"no address is left in {self._network}")


class Addresses:
    """All pods' addresses; `network_of` tells the network that a node was given, if it was."""

    def __init__(self, network_of: Callable[[str], str]) -> None:
        self._network_of = network_of
        self._pools: dict[str, _Pool] = {}
        # Of all nodes: after a restart a node may have another network than the one its pods are from.
        self._taken: set[str] = set()

    def take(self, node: str) -> str:
        """A free address on a node."""
        pool = self._pools.get(node)
        if pool is None:
            pool = self._pools[node] = _Pool(self._network(node, len(self._pools)))
        return pool.take(self._taken)

    def claim(self, address: str) -> None:
        """An address that a pod has already."""
        self._taken.add(address)

    def release(self, address: str) -> None:
        self._taken.discard(address)

    def _network(self, node: str, number: int) -> IPv4Network:
        given = self._network_of(node)
        network = ip_network(given, strict=False) if given else None
        if isinstance(network, IPv4Network) and network.num_addresses >= 4:
            return network
        return IPv4Network((int(_PODS.network_address) + number * _SIZE, 24))
