# SPDX-License-Identifier: Apache-2.0
"""Opens connections: TCP, through a proxy's tunnel if configured, then TLS; within a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kubeloop.client.errors import ConnectError, ConnectionLost, ProtocolError, ProxyError, TlsError, TransportError
from kubeloop.http.client import ConnectionFailure, FailureKind, HttpClientConnection
from kubeloop.http.client.proxy import Proxy, TunnelError, open_tunnel

if TYPE_CHECKING:
    import ssl

# Go's default dialer and TLS handshake have 30 and 10 seconds; a server that takes longer than this for both is down.
CONNECT_SECONDS = 15.0
# A vanished peer is detected after about half a minute, as by client-go's HTTP/2 pings.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))

OnLost = Callable[[HttpClientConnection], None]


class ServerAddress:
    """Address of a server and the proxy to reach it."""

    def __init__(self, host: str, port: int, *, server_name: str = "", proxy: Proxy | None = None) -> None:
        self.host = host
        self.port = port
        self.server_name = server_name or host
        self.proxy = proxy

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


async def dial(
    address: ServerAddress,
    tls: ssl.SSLContext | None,
    on_lost: OnLost,
    seconds: float = CONNECT_SECONDS,
) -> HttpClientConnection:
    """Open a connection that is ready for requests."""
    try:
        async with asyncio.timeout(seconds):
            if address.proxy is None:
                return await _dial_direct(address, tls, on_lost)
            return await _dial_through_proxy(address, address.proxy, tls, on_lost)
    except ConnectError:
        raise
    except TimeoutError:
        raise ConnectError(f"no connection to {address.authority} within {seconds:g} s") from None
    except OSError as error:  # ssl.SSLError is one
        raise _error_text(address.authority, error) from error


async def _dial_direct(address: ServerAddress, tls: ssl.SSLContext | None, on_lost: OnLost) -> HttpClientConnection:
    loop = asyncio.get_running_loop()
    name = address.server_name if tls is not None else None
    transport, connection = await loop.create_connection(
        lambda: _connection(on_lost), address.host, address.port, ssl=tls, server_hostname=name
    )
    _keep_alive(transport)
    return connection


async def _dial_through_proxy(
    address: ServerAddress, proxy: Proxy, tls: ssl.SSLContext | None, on_lost: OnLost
) -> HttpClientConnection:
    loop = asyncio.get_running_loop()
    try:
        transport = await open_tunnel(proxy, address.authority)
    except TunnelError as error:
        raise ProxyError(str(error)) from error
    _keep_alive(transport)
    connection = _connection(on_lost)
    try:
        if tls is None:
            transport.set_protocol(connection)
            connection.connection_made(transport)
            return connection
        secured = await loop.start_tls(transport, connection, tls, server_hostname=address.server_name)
        if secured is None:
            raise ProxyError(f"the proxy {proxy.host}:{proxy.port} closed the connection")
        connection.connection_made(secured)
    except BaseException:
        transport.abort()
        raise
    return connection


def _connection(on_lost: OnLost) -> HttpClientConnection:
    return HttpClientConnection(transport_error, on_lost, decompress=True, may_upgrade=False)


def transport_error(failure: ConnectionFailure) -> TransportError:
    """Return the client's error for a failed exchange."""
    kind, detail, cause = failure
    if kind is FailureKind.CLOSED or kind is FailureKind.CUT_OFF:
        reason = f": {cause}" if cause is not None and str(cause) else ""
        return ConnectionLost(f"the server closed the connection{reason}")
    texts = {
        FailureKind.NOT_HTTP: f"the response is not HTTP: {detail}",
        FailureKind.HEAD_TOO_LARGE: f"the response head is longer than {detail} bytes",
        FailureKind.BODY_TOO_LARGE: f"the response is longer than {detail} bytes",
        FailureKind.BROKEN_ENCODING: f"the compressed body of the response is invalid: {detail}",
    }
    return ProtocolError(texts.get(kind, detail))


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    with contextlib.suppress(OSError):  # not every system has every option
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _error_text(authority: str, error: OSError) -> ConnectError:
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(f"the certificate of {authority} is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return TlsError(f"no TLS connection to {authority}: {error.reason or error}")
    return ConnectError(f"no connection to {authority}: {error.strerror or error}")
