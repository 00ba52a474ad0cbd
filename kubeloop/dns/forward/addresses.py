# SPDX-License-Identifier: Apache-2.0
"""Addresses of upstream resolvers: from flags and resolv.conf, checked against loops to this server."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence

PORT = 53
SocketAddress = tuple[str, int]


class UpstreamError(ValueError):
    """Upstream resolver that cannot be used."""


def parse_upstream(text: str) -> SocketAddress:
    """Parse IP, IP:PORT or [IP]:PORT. Raises `UpstreamError`."""
    host, port = text, str(PORT)
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if rest.startswith(":") else port if closed and not rest else ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise UpstreamError(f"{text!r} is no IP address, with or without a port") from None
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UpstreamError(f"{text!r} has an invalid port")
    return str(address), int(port)


def read_resolv_conf(text: str) -> list[SocketAddress]:
    """Return the name servers in the text of a resolv.conf; entries that are no addresses are left out."""
    found = []
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        if len(words) >= 2 and words[0] == "nameserver":
            try:
                found.append((str(ipaddress.ip_address(words[1])), PORT))
            except ValueError:
                continue
    return found


def check_loops(upstreams: Iterable[SocketAddress], listening: Sequence[SocketAddress]) -> None:
    """Raise `UpstreamError` if an upstream is this server: a query would be forwarded for ever."""
    for host, port in upstreams:
        for own, own_port in listening:
            if port == own_port and (host == own or (_is_wildcard(own) and is_local(host))):
                raise UpstreamError(f"the upstream {host}:{port} is this server: queries would loop")


def _is_wildcard(host: str) -> bool:
    return ipaddress.ip_address(host).is_unspecified


def is_local(host: str) -> bool:
    """Return True if an address belongs to this machine: a socket can be bound to it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True
