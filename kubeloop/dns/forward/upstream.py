# SPDX-License-Identifier: Apache-2.0
"""Exchange with one upstream resolver: UDP from a random port, then TCP if the response is truncated."""

from __future__ import annotations

import asyncio
from struct import Struct

from kubeloop.clock import Clock
from kubeloop.dns.forward.addresses import SocketAddress
from kubeloop.dns.wire.answer import OPT, OPT_DNSSEC_OK
from kubeloop.dns.wire.constants import AD, CD, RD
from kubeloop.dns.wire.message import DnsMessage, parse_message
from kubeloop.dns.wire.names import DnsFormatError
from kubeloop.dns.wire.query import DnsQuery

_HEADER = Struct("!6H")


def encode_query(query: DnsQuery, number: int) -> bytes:
    """Return the bytes of a query; AD asks for authenticated data, EDNS0 is used if the client uses it."""
    opt = b"" if query.udp_size is None else OPT_DNSSEC_OK if query.dnssec_ok else OPT
    flags = query.flags & (RD | CD) | AD
    return _HEADER.pack(number, flags, 1, 0, 0, 1 if opt else 0) + query.question + opt


class _Exchange(asyncio.DatagramProtocol):
    """Waits for the response to a query on a connected socket; other datagrams are ignored."""

    def __init__(self, query: DnsQuery, number: int) -> None:
        self._query = query
        self._number = number
        self.response: asyncio.Future[DnsMessage] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: tuple[str | object, int]) -> None:
        try:
            message = parse_message(data)
        except DnsFormatError:
            return
        if message.is_response_to(self._query, self._number) and not self.response.done():
            self.response.set_result(message)

    def error_received(self, exc: Exception) -> None:
        if not self.response.done():
            self.response.set_exception(exc)


class UpstreamResolver:
    """Upstream resolver with its recent failures."""

    def __init__(self, address: SocketAddress, clock: Clock) -> None:
        self.address = address
        self.failed_at: float | None = None  # of the last failure, if no success followed
        self._clock = clock

    @property
    def name(self) -> str:
        """Address and port."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def exchange(self, query: DnsQuery, within: float) -> DnsMessage:
        """Return the response to a query. Raises OSError, TimeoutError or `DnsFormatError`."""
        try:
            async with asyncio.timeout(within):
                message = await self._exchange_datagrams(query)
                if message.is_truncated:
                    message = await self._exchange_stream(query) or message
        except (OSError, DnsFormatError):  # a TimeoutError is an OSError
            self.failed_at = self._clock.monotonic()
            raise
        self.failed_at = None
        return message

    async def _exchange_datagrams(self, query: DnsQuery) -> DnsMessage:
        loop = asyncio.get_running_loop()
        number = self._clock.random().getrandbits(16)
        transport, protocol = await loop.create_datagram_endpoint(
            lambda: _Exchange(query, number), remote_addr=self.address
        )
        try:
            transport.sendto(encode_query(query, number))
            return await protocol.response
        finally:
            transport.close()

    async def _exchange_stream(self, query: DnsQuery) -> DnsMessage | None:
        """Ask over TCP; returns None if that fails, so that the truncated response is used."""
        number = self._clock.random().getrandbits(16)
        try:
            reader, writer = await asyncio.open_connection(*self.address)
            try:
                data = encode_query(query, number)
                writer.write(len(data).to_bytes(2) + data)
                size = int.from_bytes(await reader.readexactly(2))
                message = parse_message(await reader.readexactly(size))
            finally:
                writer.transport.abort()
        except TimeoutError:
            raise
        except (OSError, EOFError, DnsFormatError):
            return None
        return message if message.is_response_to(query, number) else None
