# SPDX-License-Identifier: Apache-2.0
"""Addresses of clients that are answered: an open resolver serves attackers of other hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

ClientNetwork = IPv4Network | IPv6Network


class ClientFilter:
    """Decides by networks, and by addresses that can be replaced, if a client is answered; without networks all are."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks: tuple[ClientNetwork, ...] = tuple(ip_network(one) for one in networks)
        self._addresses: frozenset[IPv4Address | IPv6Address] = frozenset()

    def set_addresses(self, addresses: Iterable[str]) -> None:
        """Replace the addresses that are answered apart from the networks."""
        self._addresses = frozenset(ip_address(one) for one in addresses)

    def is_allowed(self, host: str) -> bool:
        """Return True if the client at an address is answered."""
        if not self._networks:
            return True
        address = ip_address(host.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address in self._addresses or any(address in one for one in self._networks)
