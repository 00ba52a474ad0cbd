# SPDX-License-Identifier: Apache-2.0
"""Addresses that requests may be forwarded to: as upstream, global unicast ones only."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket

from kubeloop.api import errors

_LEADING_ZEROS = re.compile(r"(?:^|(?<=\.))0+(?=[0-9])")
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address; None if it is none. Leading zeros are ignored, a mapped IPv4 address is unmapped, as in Go."""
    try:
        found = ipaddress.ip_address(_LEADING_ZEROS.sub("", text) if ":" not in text else text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        return found.ipv4_mapped or found
    return found


def is_global_unicast(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return True unless the address is unspecified, loopback, multicast, link-local or broadcast."""
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == _BROADCAST
    )


def require_global_unicast(text: str) -> None:
    """Raise BadRequest unless a text is a global unicast address."""
    address = parse_address(text)
    if address is None or not is_global_unicast(address):
        raise errors.bad_request("address not allowed")


async def resolve_proxyable(host: str) -> str:
    """Resolve a host name or an address in any notation; raises BadRequest unless all results are global unicast.

    The result is to be dialled instead of the name, which may resolve to something else a moment later.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise errors.bad_request(f"lookup {host}: no such host") from None
    addresses = [str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found]
    if not addresses:
        raise errors.bad_request("no addresses for hostname")
    for address in addresses:
        require_global_unicast(address)
    return addresses[0]
