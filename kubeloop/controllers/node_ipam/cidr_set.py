# SPDX-License-Identifier: Apache-2.0
"""Allocator of equal subnets of a CIDR, with a reference count for each."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, NamedTuple

Network = IPv4Network | IPv6Network

# Upstream's limit for IPv6, which otherwise allows trillions of subnets.
MAX_SUBNET_BITS_IPV6: Final = 16


class NoCidrsRemaining(Exception):
    """Raised if all subnets are allocated."""

    def __init__(self) -> None:
        super().__init__("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")


class CidrOutOfRange(ValueError):
    """Raised for a network that does not overlap with the CIDR."""


class AllocatedCidr(NamedTuple):
    """Allocated subnet, and the number of subnets tried before it."""

    network: Network
    tries: int


class CidrSet:
    """CIDR divided into equal subnets.

    A subnet may be held several times, for instance if two nodes were given the same one manually; it is free again
    when all holders have released it. Invariant: `_holders` contains exactly the subnets that are held.
    """

    def __init__(self, network: Network, node_bits: int) -> None:
        if network.version == 6 and node_bits - network.prefixlen > MAX_SUBNET_BITS_IPV6:
            raise ValueError("New CIDR set failed; the node CIDR size is too big")
        self.network = network
        self.size = 1 << (node_bits - network.prefixlen)
        self._node_bits = node_bits
        self._shift = network.max_prefixlen - node_bits
        self._first = int(network.network_address)
        self._holders: dict[int, int] = {}
        self._next = 0

    @property
    def used(self) -> int:
        """Number of subnets in use."""
        return len(self._holders)

    def allocate_next(self) -> AllocatedCidr:
        """Allocate the next free subnet after the last one, so that released ones are reused as late as possible."""
        if self.used >= self.size:
            raise NoCidrsRemaining
        for tries in range(self.size):
            index = (self._next + tries) % self.size
            if index not in self._holders:
                self._next = (index + 1) % self.size
                self._holders[index] = 1
                return AllocatedCidr(self._part(index), tries)
        raise NoCidrsRemaining

    def occupy(self, network: Network) -> int:
        """Hold all subnets that overlap with a network; returns how many were free before."""
        before = self.used
        for index in self._parts_of(network):
            self._holders[index] = self._holders.get(index, 0) + 1
        return self.used - before

    def release(self, network: Network) -> int:
        """Undo one `hold` or `take`; returns how many subnets became free."""
        before = self.used
        for index in self._parts_of(network):
            holders = self._holders.get(index, 0) - 1
            if holders > 0:
                self._holders[index] = holders
            else:
                self._holders.pop(index, None)
        return before - self.used

    def check(self, network: Network) -> None:
        """Raise `CidrOutOfRange` for a network that can't be held."""
        if network.version != self.network.version or not network.overlaps(self.network):
            raise CidrOutOfRange(f"cidr {network} is out the range of cluster cidr {self.network}")

    def _parts_of(self, network: Network) -> Iterator[int]:
        self.check(network)
        if network.prefixlen <= self.network.prefixlen:
            return iter(range(self.size))
        begin = (int(network.network_address) - self._first) >> self._shift
        end = (int(network.broadcast_address) - self._first) >> self._shift
        return iter(range(begin, end + 1))

    def _part(self, index: int) -> Network:
        address = type(self.network.network_address)(self._first + (index << self._shift))
        return ip_network(f"{address}/{self._node_bits}")
