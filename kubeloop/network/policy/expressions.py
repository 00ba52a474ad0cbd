# SPDX-License-Identifier: Apache-2.0
"""Expressions of rules. Both ends of a connection are read from connection tracking, not from the packet.

The client is the source of the connection's first packet, before masquerading. The server is the sender of the replies:
the pod behind a Service address. Both are the same for packets of either direction, so that a reply is allowed if and
only if its connection is, and a policy that forbids a connection cuts it at once in both directions.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from kubeloop.network.policy.model import IPAddress
from kubeloop.network.policy.table import FilterMatch

PROTOCOL: Final = "meta l4proto"
SERVER_PORT: Final = "ct reply proto-src"
_HASH_LENGTH: Final = 16  # hexadecimal digits: 64 bits, so that names do not collide


class FamilyExpressions(NamedTuple):
    """Expressions and types of one IP family."""

    version: int
    address_type: str
    client: str
    server: str
    packet_source: str
    packet_destination: str

    @property
    def server_and_port(self) -> str:
        """Expression of the server's address and port."""
        return f"{self.server} . {SERVER_PORT}"

    @property
    def client_and_server(self) -> str:
        """Expression of both addresses."""
        return f"{self.client} . {self.server}"

    @property
    def endpoint_type(self) -> str:
        """Type of an address with a port."""
        return f"{self.address_type} . inet_service"


FAMILIES: Final = (
    FamilyExpressions(4, "ipv4_addr", "ct original ip saddr", "ct reply ip saddr", "ip saddr", "ip daddr"),
    FamilyExpressions(6, "ipv6_addr", "ct original ip6 saddr", "ct reply ip6 saddr", "ip6 saddr", "ip6 daddr"),
)


def hashed_name(prefix: str, content: str, suffix: str = "") -> str:
    """Return a name of a chain or set that depends on content only."""
    digest = hashlib.sha256(content.encode()).hexdigest()[:_HASH_LENGTH]
    return "-".join(part for part in (prefix, digest, suffix) if part)


def family_name(name: str, version: int) -> str:
    """Return the name of a set for one IP family."""
    return f"{name}-{version}"


def in_set(expression: str, name: str, *, negated: bool = False) -> FilterMatch:
    """Return the condition that a set has, or does not have, the value of an expression."""
    return FilterMatch(expression, f"@{name}", negated)


def is_protocol(protocol: str) -> FilterMatch:
    """Return the condition of a protocol of the API. nft needs it before a port to know the port's type."""
    return FilterMatch(PROTOCOL, protocol.lower())


def endpoint_element(address: IPAddress, port: int) -> str:
    """Return the element of an address with a port."""
    return f"{address} . {port}"
