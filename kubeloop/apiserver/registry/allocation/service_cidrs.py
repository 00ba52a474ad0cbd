# SPDX-License-Identifier: Apache-2.0
"""Networks of Service addresses: from ServiceCIDR objects, else from the server's configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from random import Random
from typing import TYPE_CHECKING, Final

from kubeloop.api import codec
from kubeloop.api.addresses import parse_ip
from kubeloop.apiserver.registry.allocation.bands import choose_free_offset, lower_band_size
from kubeloop.store import Record, Store

if TYPE_CHECKING:
    from kubeloop.api.generated.networking_v1 import ServiceCIDR

NONE: Final = "None"  # value of clusterIP in a headless Service
_SHARE: Final = 16
_LARGEST_BAND: Final = 256
_SHORTEST_IPV6_PREFIX: Final = 64


@dataclass(frozen=True)
class ServiceNetwork:
    """Range of Service addresses. Its first address, and in IPv4 its last, are never allocated."""

    cidr: str

    @cached_property
    def _range(self) -> IPv4Network | IPv6Network:
        return ip_network(self.cidr, strict=False)

    @property
    def family(self) -> str:
        """IP family of the network, IPv4 or IPv6."""
        return f"IPv{self._range.version}"

    @property
    def is_usable(self) -> bool:
        """True if the network is small enough to allocate from."""
        return self._range.version == 4 or self._range.prefixlen >= _SHORTEST_IPV6_PREFIX

    @property
    def placeholder(self) -> str:
        """Address returned by dry runs: the network address, which is never allocated."""
        return str(self._range.network_address)

    @cached_property
    def size(self) -> int:
        """Number of addresses that can be allocated."""
        return max(self._range.num_addresses - (2 if self._range.version == 4 else 1), 0)

    def __contains__(self, address: IPv4Address | IPv6Address) -> bool:
        offset = int(address) - int(self._range.network_address) - 1
        return address.version == self._range.version and 0 <= offset < self.size

    def choose_free_address(self, is_taken: Callable[[str], bool], random: Random) -> str | None:
        """Return a free address, or None if there is none."""
        first = self._range.network_address + 1
        lower = lower_band_size(self._range.num_addresses, _SHARE, _LARGEST_BAND)
        offset = choose_free_offset(self.size, lower, lambda offset: is_taken(str(first + offset)), random)
        return None if offset is None else str(first + offset)


class ServiceNetworks:
    """Networks in use, read again only when a ServiceCIDR has changed."""

    def __init__(self, store: Store, prefix: str, configured: Iterable[ServiceNetwork]) -> None:
        self._store = store
        self._prefix = prefix
        self._configured = tuple(configured)
        self._read_revisions: tuple[int, ...] = ()
        self._current = self._configured

    def of(self, family: str) -> list[ServiceNetwork]:
        """Return the networks of an IP family."""
        records = self._store.range(self._prefix).records
        seen = tuple(record.mod_revision for record in records)
        if seen != self._read_revisions:
            self._read_revisions = seen
            self._current = self._read(records)
        return [network for network in self._current if network.family == family]

    def _read(self, records: Iterable[Record]) -> tuple[ServiceNetwork, ...]:
        from kubeloop.api.generated.networking_v1 import ServiceCIDR

        found = [codec.decode(record.value, ServiceCIDR) for record in records]
        told = {ServiceNetwork(cidr).family for one in found for cidr in one.spec.cidrs}
        ready = [ServiceNetwork(cidr) for one in found if _is_ready(one) for cidr in one.spec.cidrs]
        # A cluster may have gained a family since its objects were made.
        untold = [network for network in self._configured if network.family not in told]
        return tuple(network for network in (*ready, *untold) if network.is_usable)


def _is_ready(network: ServiceCIDR) -> bool:
    """Return True unless the ServiceCIDR is being deleted or its Ready condition is set and not True."""
    refused = any(one.type == "Ready" and one.status != "True" for one in network.status.conditions)
    return not refused and network.metadata.deletion_timestamp is None


def canonical_ip(address: str) -> str:
    """Return the canonical spelling of an address; text that is no address is returned unchanged."""
    parsed = parse_ip(address)
    return address if parsed is None else str(parsed)


def family_of(address: str) -> str:
    """Return IPv4 or IPv6; empty for text that is no address."""
    parsed = parse_ip(address)
    return "" if parsed is None else f"IPv{parsed.version}"
