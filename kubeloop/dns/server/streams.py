# SPDX-License-Identifier: Apache-2.0
"""TCP connections of the server (RFC 7766): length-prefixed messages, several at a time, closed when idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

from kubeloop.dns.server.client_filter import ClientFilter
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import ChannelMetrics, DnsMetrics

IDLE_SECONDS = 10.0  # CoreDNS's
MAX_CONNECTIONS = 1000
MAX_PIPELINED = 100  # queries of a connection under way; it is not read meanwhile
_MAX_BUFFER = 65537  # one message with its length

log = logging.getLogger(__name__)


class StreamConnections:
    """Open connections of a server, bounded in number."""

    def __init__(
        self,
        handler: DnsHandler,
        metrics: DnsMetrics,
        idle_seconds: float = IDLE_SECONDS,
        clients: ClientFilter | None = None,
    ) -> None:
        self.handler = handler
        self.clients = clients or ClientFilter()
        self.idle_seconds = idle_seconds
        self._channels = {family: metrics.channel("tcp", family) for family in ("1", "2")}
        self._open: set[DnsStreamProtocol] = set()

    def __len__(self) -> int:
        return len(self._open)

    def new_protocol(self) -> DnsStreamProtocol:
        """Return the protocol of a new connection."""
        return DnsStreamProtocol(self)

    def admit(self, connection: DnsStreamProtocol) -> bool:
        """Register a connection; returns False if there are too many."""
        if len(self._open) >= MAX_CONNECTIONS:
            return False
        self._open.add(connection)
        return True

    def discard(self, connection: DnsStreamProtocol) -> None:
        """Forget a closed connection."""
        self._open.discard(connection)

    def channel(self, family: str) -> ChannelMetrics:
        """Return the metrics of an address family."""
        return self._channels[family]

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(connection.close() for connection in tuple(self._open)))


class DnsStreamProtocol(asyncio.Protocol):
    """Protocol of one TCP connection."""

    def __init__(self, connections: StreamConnections) -> None:
        self._connections = connections
        self._channel = connections.channel("1")
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._is_ended = False  # the client sends no more queries
        self._host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or close it at once if there are too many."""
        self._transport = transport  # type: ignore[assignment]  # of a stream
        peer = transport.get_extra_info("peername") or ("",)
        self._host = str(peer[0])
        self._channel = self._connections.channel("2" if ":" in self._host else "1")
        if not self._connections.admit(self):
            transport.close()
            return
        self._restart_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and cancel its answers."""
        self._connections.discard(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer the complete messages."""
        self._buffer += data
        self._answer_buffered()

    def eof_received(self) -> bool:
        """Keep the connection until the queries under way are answered."""
        self._is_ended = True
        return bool(self._tasks)

    def pause_writing(self) -> None:
        """Read no more queries while the client does not read the responses."""
        self._is_paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        """Read queries again."""
        self._is_paused = False
        self._answer_buffered()

    def _answer_buffered(self) -> None:
        self._restart_timer()
        buffer = self._buffer
        while len(buffer) >= 2 and not self._is_busy and self._transport is not None:
            size = buffer[0] << 8 | buffer[1]
            if len(buffer) < 2 + size:
                break
            message = bytes(buffer[2 : 2 + size])
            del buffer[: 2 + size]
            self._answer(message)
        if self._is_busy:
            self._pause_reading()
        elif self._transport is not None and not self._is_ended:
            self._transport.resume_reading()

    def _answer(self, message: bytes) -> None:
        try:
            response = self._respond(message)
        except Exception:  # a defect must not end the server
            log.exception("a query could not be answered")
            response = None
        if isinstance(response, bytes):
            self._write(response)
        elif response is not None:
            task = asyncio.get_running_loop().create_task(self._answer_later(response))
            self._tasks.add(task)
            task.add_done_callback(self._answered)
        elif self._transport is not None:
            self._transport.close()  # no query: nothing sensible will follow

    def _respond(self, message: bytes) -> bytes | Coroutine[None, None, bytes] | None:
        handler = self._connections.handler
        if not self._connections.clients.is_allowed(self._host):
            return handler.refuse(message, self._channel)
        return handler.respond(message, self._channel, is_stream=True)

    async def _answer_later(self, response: Coroutine[None, None, bytes]) -> None:
        self._write(await response)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._transport is not None:
            self._answer_buffered()
        if self._is_ended and not self._tasks and self._transport is not None:
            self._transport.close()

    def _write(self, response: bytes) -> None:
        if self._transport is not None:
            self._transport.write(len(response).to_bytes(2) + response)

    @property
    def _is_busy(self) -> bool:
        return self._is_paused or len(self._tasks) >= MAX_PIPELINED

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._connections.idle_seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close a connection without progress, also one whose client does not read its responses."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the connection."""
        tasks = tuple(self._tasks)
        if self._transport is not None:
            self._transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
