# SPDX-License-Identifier: Apache-2.0
"""IP families: their names in the API and in nft's language, and addresses and networks by family. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class IPFamily:
    """IP family: name in the API, nft's keyword and data type, number of its version."""

    name: str
    nft: str
    address_type: str
    version: int
    loopback: str  # network of loopback addresses

    def __str__(self) -> str:
        return self.name


IPV4: Final = IPFamily("IPv4", "ip", "ipv4_addr", 4, "127.0.0.0/8")
IPV6: Final = IPFamily("IPv6", "ip6", "ipv6_addr", 6, "::1")
IP_FAMILIES: Final = (IPV4, IPV6)


def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, also one whose numbers have leading zeros; None if the text is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    try:
        return ipaddress.IPv4Address(".".join(part.lstrip("0") or "0" for part in parts))
    except ValueError:
        return None


def parse_network(text: str) -> IPNetwork | None:
    """Return a network in CIDR notation, without its host bits; None if the text is none."""
    address, slash, length = text.partition("/")
    found = parse_ip(address)
    if found is None or not slash or not (length.isascii() and length.isdecimal()):
        return None
    try:
        return ipaddress.ip_network(f"{found}/{int(length)}", strict=False)
    except ValueError:
        return None


def family_of(text: str) -> IPFamily | None:
    """Return the family of an address; None if the text is none."""
    found = parse_ip(text)
    return None if found is None else IPV4 if found.version == 4 else IPV6


def addresses_of(texts: Iterable[str], family: IPFamily) -> tuple[str, ...]:
    """Return the valid addresses of a family in their shortest form."""
    return tuple(
        str(found) for one in texts if (found := parse_ip(one)) is not None and found.version == family.version
    )


def networks_of(texts: Iterable[str], family: IPFamily) -> tuple[IPNetwork, ...]:
    """Return the valid networks of a family; surrounding spaces are allowed."""
    found = (parse_network(one.strip()) for one in texts)
    return tuple(one for one in found if one is not None and one.version == family.version)


def join_host_port(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
