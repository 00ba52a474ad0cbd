# SPDX-License-Identifier: Apache-2.0
"""Listening HTTP server: accepts connections, enforces timeouts, and stops without aborting requests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

from kubeloop.clock import Clock
from kubeloop.http.connections import ServerState
from kubeloop.http.limits import HttpHooks, HttpLimits
from kubeloop.http.messages import Handler
from kubeloop.http.protocol import HttpServerConnection

_BACKLOG = 1024
_KEEPALIVE_SECONDS = 30  # keep-alive: detects a vanished peer even if nothing is sent to it


class HttpServer:
    """Listening HTTP server; made by `serve`."""

    def __init__(self, service: ServerState, listener: asyncio.Server, port: int) -> None:
        self.port = port
        self._state = service
        self._listener = listener
        self._interval = service.limits.sweep_interval
        self._timer = service.loop.call_later(self._interval, self._sweep)

    @property
    def connections(self) -> int:
        """Number of connected clients, without upgraded connections."""
        return len(self._state.connections)

    def _sweep(self) -> None:
        service = self._state
        self._timer = service.loop.call_later(self._interval, self._sweep)  # first, so that no failure stops the sweep
        now = service.loop.time()
        for connection in tuple(service.connections):
            connection.check_timeouts(now)
        service.upgraded = {transport for transport in service.upgraded if not transport.is_closing()}

    async def close(self, grace: float = 10.0) -> None:
        """Stop accepting, end streams, let requests finish for `grace` seconds, then abort the rest."""
        service = self._state
        service.closing = True
        self._listener.close()
        for connection in tuple(service.connections):
            connection.shut_down()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._wait_idle()
        for connection in tuple(service.connections):
            connection.abort()
        for transport in service.upgraded:
            transport.abort()
        for task in tuple(service.tasks):
            task.cancel()
        if service.tasks:
            await asyncio.wait(service.tasks)
        service.starter.close()
        self._timer.cancel()
        # The listener's wait_closed() would, from Python 3.12 on, wait for TLS handshakes that may never end.

    async def _wait_idle(self) -> None:
        service = self._state
        while service.connections or service.tasks:
            service.activity.clear()
            await service.activity.wait()


async def serve(
    handler: Handler,
    host: str,
    port: int,
    ssl_context: ssl.SSLContext | None,
    limits: HttpLimits,
    clock: Clock,
    hooks: HttpHooks | None = None,
    *,
    reuse_port: bool = False,
) -> HttpServer:
    """Listen on host and port (0: any free one). A port in use raises OSError, unless both sides reuse it."""
    loop = asyncio.get_running_loop()
    service = ServerState(handler, limits, hooks or HttpHooks(), clock, loop)
    sock = _listening_socket(host, port, reuse_port)
    try:
        listener = await loop.create_server(
            lambda: HttpServerConnection(service),
            sock=sock,
            backlog=_BACKLOG,
            ssl=ssl_context,
            ssl_handshake_timeout=limits.handshake_timeout if ssl_context else None,
            ssl_shutdown_timeout=limits.shutdown_timeout if ssl_context else None,
        )
    except BaseException:
        sock.close()
        raise
    return HttpServer(service, listener, sock.getsockname()[1])


def _listening_socket(host: str, port: int, reuse_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    sock = socket.create_server(
        (host, port), family=family, backlog=_BACKLOG, reuse_port=reuse_port, dualstack_ipv6=both
    )
    sock.setblocking(False)
    # Accepted connections inherit these.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS)
    return sock
