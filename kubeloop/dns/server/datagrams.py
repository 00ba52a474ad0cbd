# SPDX-License-Identifier: Apache-2.0
"""UDP socket of the server: answers datagrams in place; those that take time are answered by bounded tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from kubeloop.dns.server.client_filter import ClientFilter
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import ChannelMetrics, DnsMetrics

MAX_TASKS = 2000  # of one socket; further queries are dropped, so that clients retry

log = logging.getLogger(__name__)


class DnsDatagramProtocol(asyncio.DatagramProtocol):
    """Protocol of a UDP socket."""

    def __init__(self, handler: DnsHandler, metrics: DnsMetrics, family: str, clients: ClientFilter) -> None:
        self._handler = handler
        self._clients = clients
        self._channel: ChannelMetrics = metrics.channel("udp", family)
        self._transport: asyncio.DatagramTransport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]  # of a datagram endpoint

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Answer a datagram; responses are dropped while the socket cannot send."""
        transport = self._transport
        if transport is None or self._is_paused:
            return
        try:
            if self._clients.is_allowed(addr[0]):
                response = self._handler.respond(data, self._channel, is_stream=False)
            else:
                response = self._handler.refuse(data, self._channel)
            if isinstance(response, bytes):
                transport.sendto(response, addr)
            elif response is not None:
                self._answer_later(response, addr)
        except Exception:  # neither a defect nor an impossible address must end the server
            log.exception("a datagram could not be answered")

    def pause_writing(self) -> None:
        """Stop to answer: the socket's buffer is full."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Answer again."""
        self._is_paused = False

    def error_received(self, exc: Exception) -> None:
        """Ignore errors that a client's host reports."""

    def _answer_later(self, response: Coroutine[None, None, bytes], addr: Any) -> None:
        if len(self._tasks) >= MAX_TASKS:
            response.close()
            return
        task = asyncio.get_running_loop().create_task(self._send(response, addr))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, response: Coroutine[None, None, bytes], addr: Any) -> None:
        data = await response
        if self._transport is not None and not self._transport.is_closing() and not self._is_paused:
            self._transport.sendto(data, addr)

    async def close(self) -> None:
        """Close the socket, and cancel answers under way."""
        if self._transport is not None:
            self._transport.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
