# SPDX-License-Identifier: Apache-2.0
"""Dials other servers over TLS for this one; words failures as Go's HTTP client does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from kubeloop.http.client import ConnectionFailure, FailureKind, HttpClientConnection
from kubeloop.http.client.proxy import Proxy, TunnelError, open_tunnel

# OpenSSL's codes for a certificate that no trusted authority has signed.
_UNTRUSTED = (18, 19, 20, 21)


class RemoteUnreachable(Exception):
    """Error for a missing response, with the reason as upstream's clients word it."""


class UnverifiedCertificate(RemoteUnreachable):
    """Error for a server certificate that could not be verified."""


class UnknownAuthority(UnverifiedCertificate):
    """Error for a server certificate that no trusted authority has signed."""

    def __init__(self) -> None:
        super().__init__("tls: failed to verify certificate: x509: certificate signed by unknown authority")


async def dial(
    host: str, port: int, context: ssl.SSLContext | None, server_name: str, seconds: float
) -> HttpClientConnection:
    """Open a connection, without TLS if there is no context; raises `RemoteUnreachable`."""
    where = _authority(host, port)
    with _go_errors(where):
        async with asyncio.timeout(seconds):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: HttpClientConnection(unreachable_error),
                host,
                port,
                ssl=context,
                server_hostname=server_name if context is not None else None,
            )
    return connection


async def dial_through(
    proxy: Proxy, address: tuple[str, int], context: ssl.SSLContext | None, server_name: str, seconds: float
) -> HttpClientConnection:
    """Open a connection through a proxy's tunnel; TLS, if any, is with the server. Raises `RemoteUnreachable`."""
    connection = HttpClientConnection(unreachable_error)
    with _go_errors(_authority(proxy.host, proxy.port)):
        async with asyncio.timeout(seconds):
            transport = await open_tunnel(proxy, _authority(*address))
            if context is None:
                transport.set_protocol(connection)
            else:
                transport = await _start_tls(transport, connection, context, server_name)
    connection.connection_made(transport)
    return connection


async def _start_tls(
    transport: asyncio.Transport, connection: HttpClientConnection, context: ssl.SSLContext, server_name: str
) -> asyncio.Transport:
    try:
        secured = await asyncio.get_running_loop().start_tls(
            transport, connection, context, server_hostname=server_name
        )
    except BaseException:
        transport.abort()
        raise
    if secured is None:
        raise RemoteUnreachable("EOF")
    return secured


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def _go_errors(where: str) -> Iterator[None]:
    """Convert the errors of a dial to `where` to `RemoteUnreachable`."""
    try:
        yield
    except TimeoutError:
        raise RemoteUnreachable(f"dial tcp {where}: i/o timeout") from None
    except TunnelError as error:
        raise RemoteUnreachable(f"proxyconnect tcp: {error}") from None
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _UNTRUSTED:
            raise UnknownAuthority from None
        raise UnverifiedCertificate(f"tls: failed to verify certificate: x509: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise RemoteUnreachable(
            f"remote error: tls: {(error.reason or str(error)).lower().replace('_', ' ')}"
        ) from None
    except OSError as error:
        raise RemoteUnreachable(f"dial tcp {where}: connect: {reason_of(error)}") from None


def unreachable_error(failure: ConnectionFailure) -> RemoteUnreachable:
    """Return the error for a failed exchange."""
    kind, detail, cause = failure
    if isinstance(cause, OSError):
        return RemoteUnreachable(reason_of(cause))
    texts = {
        FailureKind.CLOSED: "EOF",
        FailureKind.CUT_OFF: "unexpected EOF",
        FailureKind.HEAD_TOO_LARGE: f"net/http: server response headers exceeded {detail} bytes; aborted",
        FailureKind.BODY_TOO_LARGE: f"http: response body too large: more than {detail} bytes",
    }
    return RemoteUnreachable(texts.get(kind, f"net/http: malformed HTTP response: {detail}"))


def reason_of(error: OSError) -> str:
    """Return the system's message for an error, in lower case as Go prints it."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or str(error) or type(error).__name__).lower()
