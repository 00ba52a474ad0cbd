# SPDX-License-Identifier: Apache-2.0
"""Sockets of the server: UDP and TCP on the same port of each address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress

from kubeloop.dns.forward.addresses import SocketAddress
from kubeloop.dns.server.client_filter import ClientFilter
from kubeloop.dns.server.datagrams import DnsDatagramProtocol
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import DnsMetrics
from kubeloop.dns.server.streams import StreamConnections

_BACKLOG = 512
_RECEIVE_BUFFER = 4 << 20  # bytes, as far as the system allows: bursts wait there, not in this process
_FREE_PORT_TRIES = 16

SocketPair = tuple[socket.socket, socket.socket]


class DnsListeners:
    """Listening sockets and open connections."""

    def __init__(self, handler: DnsHandler, metrics: DnsMetrics, clients: ClientFilter | None = None) -> None:
        self._handler = handler
        self._metrics = metrics
        self._clients = clients or ClientFilter()
        self._streams = StreamConnections(handler, metrics, clients=self._clients)
        self._datagrams: list[DnsDatagramProtocol] = []
        self._servers: list[asyncio.Server] = []

    async def listen(self, pairs: Sequence[SocketPair]) -> None:
        """Serve bound sockets."""
        loop = asyncio.get_running_loop()
        for udp, tcp in pairs:
            family = "2" if udp.family == socket.AF_INET6 else "1"
            _, protocol = await loop.create_datagram_endpoint(
                lambda family=family: DnsDatagramProtocol(  # type: ignore[misc]
                    self._handler, self._metrics, family, self._clients
                ),
                sock=udp,
            )
            self._datagrams.append(protocol)
            self._servers.append(await loop.create_server(self._streams.new_protocol, sock=tcp, backlog=_BACKLOG))

    async def close(self) -> None:
        """Close all sockets and connections."""
        for server in self._servers:
            server.close()
        for protocol in self._datagrams:
            await protocol.close()
        await self._streams.close()


def bind_sockets(hosts: Sequence[str], port: int) -> list[SocketPair]:
    """Bind UDP and TCP sockets to the same port of all addresses; port 0 is any that is free for both."""
    for attempt in range(1, _FREE_PORT_TRIES + 1):
        pairs: list[SocketPair] = []
        chosen = port
        try:
            for host in hosts:
                pairs.append(_bind_pair(host, chosen))
                chosen = pairs[0][0].getsockname()[1]
        except OSError:
            close_sockets(pairs)
            if port or attempt == _FREE_PORT_TRIES:
                raise
        else:
            return pairs
    raise AssertionError("unreachable")


def socket_address(pair: SocketPair) -> SocketAddress:
    """Return the address and port of a pair of sockets."""
    host, port = pair[0].getsockname()[:2]
    return str(host), int(port)


def close_sockets(pairs: Sequence[SocketPair]) -> None:
    """Close sockets that are not served."""
    for udp, tcp in pairs:
        udp.close()
        tcp.close()


def _bind_pair(host: str, port: int) -> SocketPair:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    tcp = socket.socket(family, socket.SOCK_STREAM)
    try:
        for one in (udp, tcp):
            one.setblocking(False)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        with suppress(OSError):
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        udp.bind((host, port))
        tcp.bind((host, udp.getsockname()[1]))
    except OSError:
        udp.close()
        tcp.close()
        raise
    return udp, tcp
