# SPDX-License-Identifier: Apache-2.0
"""A DNS server on loopback whose answers a test chooses, written with dnspython."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import dns.flags
import dns.message
import dns.rrset

from kubeloop.dns.listeners import bind_sockets, socket_address

Answer = Callable[[dns.message.Message, bool], list[bytes] | bytes | None]


def reply(query: dns.message.Message, *records: str, rcode: int = 0, authority: tuple[str, ...] = ()) -> bytes:
    """Return the response with records as text: NAME TTL IN TYPE DATA."""
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(rcode)
    for section, texts in ((response.answer, records), (response.authority, authority)):
        for text in texts:
            name, ttl, rrclass, rrtype, data = text.split(" ", 4)
            section.append(dns.rrset.from_text(name, int(ttl), rrclass, rrtype, data))
    return response.to_wire(max_size=65535)


class UpstreamServer(asyncio.DatagramProtocol):
    """Answers by a function of the query and of the transport; counts the queries."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.queries: list[tuple[dns.message.Message, bool]] = []
        self.ports: list[int] = []
        self.address = ("127.0.0.1", 0)
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.ports.append(addr[1])
        for response in self._respond(data, False):
            self._transport.sendto(response, addr)

    async def serve_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(2))
        for response in self._respond(await reader.readexactly(size), True):
            writer.write(len(response).to_bytes(2) + response)
        writer.close()

    def _respond(self, data: bytes, is_stream: bool) -> list[bytes]:
        query = dns.message.from_wire(data)
        self.queries.append((query, is_stream))
        found = self.answer(query, is_stream)
        return found if isinstance(found, list) else [found] if found else []


@asynccontextmanager
async def upstream_server(answer: Answer) -> AsyncIterator[UpstreamServer]:
    """Run a server on a free port."""
    server = UpstreamServer(answer)
    ((udp, tcp),) = bind_sockets(("127.0.0.1",), 0)
    server.address = socket_address((udp, tcp))
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: server, sock=udp)
    listener = await asyncio.start_server(server.serve_stream, sock=tcp)
    try:
        yield server
    finally:
        transport.close()
        listener.close()
        await listener.wait_closed()
