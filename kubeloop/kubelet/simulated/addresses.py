# SPDX-License-Identifier: Apache-2.0
"""Addresses of simulated nodes and pods: each pod gets a unique one from each pod CIDR of its node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network

# A network of 256 addresses for each of 32,768 nodes, for nodes without pod CIDRs.
_PODS = ip_network("10.128.0.0/9")
_NODES = ip_network("172.16.0.0/12")
_SIZE = 256
_PLACES = _PODS.num_addresses // _SIZE
# Limit of addresses that are searched in a network.
_MAX_SEARCHED_ADDRESSES = 1 << 16

Network = IPv4Network | IPv6Network


def node_address(number: int) -> str:
    """Return the address of the n-th node, counted from 1."""
    return str(_NODES[number])


def node_address_by_name(name: str) -> str:
    """Return a constant address for a node without a number, derived from its name."""
    low = int(_NODES.num_addresses / 2)  # the first half is for numbered nodes
    return str(_NODES[low + int.from_bytes(sha256(name.encode()).digest()[:4], "big") % low])


def network_offset_by_name(name: str) -> int:
    """Return an offset derived from a node's name, to differ from other agents without pod CIDRs."""
    return int.from_bytes(sha256(name.encode()).digest()[:4], "big")


class _Pool:
    """Pod addresses of one node, except for the network and gateway addresses."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._next = 2

    def allocate(self, taken: set[str]) -> str:
        """Return a free address and mark it as used. Raises `OverflowError`."""
        size = min(self._network.num_addresses, _MAX_SEARCHED_ADDRESSES)
        for _ in range(size):
            address = str(self._network[self._next])
            self._next = self._next + 1 if self._next + 2 < size else 2
            if address not in taken:
                taken.add(address)
                return address
        raise OverflowError(f"no free address in {self._network}")


class PodAddressAllocator:
    """Addresses of all pods; `networks_of` returns the pod CIDRs of a node, if it has any.

    `offset` is the number of the first network for nodes without pod CIDRs. Such networks never overlap
    `cluster_cidrs`, from which other nodes have theirs.
    """

    def __init__(
        self, networks_of: Callable[[str], Sequence[str]], offset: int = 0, cluster_cidrs: Iterable[Network] = ()
    ) -> None:
        self._networks_of = networks_of
        self._cluster = tuple(one for one in cluster_cidrs if isinstance(one, IPv4Network))
        self._pools: dict[str, list[_Pool]] = {}
        self._given: dict[str, Sequence[str]] = {}  # pod CIDRs that the pools of a node were made for
        self._next_place = offset
        # For all nodes together: after a restart a node may have another CIDR than its pods' addresses.
        self._taken: set[str] = set()

    def allocate(self, node: str) -> tuple[str, ...]:
        """Allocate addresses on a node, one of each pod CIDR."""
        given = self._networks_of(node)
        pools = self._pools.get(node)
        if pools is None or given != self._given[node]:  # a new node gets its pod CIDRs a moment later
            self._given[node] = given
            pools = self._pools[node] = [_Pool(one) for one in self._networks(given)]
        return tuple(pool.allocate(self._taken) for pool in pools)

    def reserve(self, addresses: Iterable[str]) -> None:
        """Reserve addresses that a pod already has."""
        self._taken.update(addresses)

    def release(self, addresses: Iterable[str]) -> None:
        """Release addresses."""
        self._taken.difference_update(addresses)

    def _networks(self, given: Iterable[str]) -> list[Network]:
        networks = (ip_network(one, strict=False) for one in given)
        usable = [one for one in networks if one.num_addresses >= 4]
        return usable or [self._next_network()]

    def _next_network(self) -> IPv4Network:
        """Return the next network outside of the cluster CIDRs."""
        for _ in range(_PLACES):
            place = self._next_place % _PLACES
            self._next_place += 1
            network = IPv4Network((int(_PODS.network_address) + place * _SIZE, 24))
            if not any(network.overlaps(one) for one in self._cluster):
                return network
        raise OverflowError(f"the cluster CIDRs leave no network of {_PODS} for nodes without pod CIDRs")
