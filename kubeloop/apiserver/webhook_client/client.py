"""HTTP client of one server: pooled connections, complete responses, one timeout for everything."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kubeloop.apiserver.aggregator.connection import RemoteConnection, RemoteUnreachable, ResponseHead, dial
from kubeloop.apiserver.aggregator.endpoints import HostPort, ServiceUnresolvable
from kubeloop.apiserver.aggregator.idle_connections import IdleConnectionPool

# Maximum response size: several times that of a request to this server.
_MAX_RESPONSE_BYTES: Final = 16 << 20
_LATE: Final = "context deadline exceeded"

Headers = Iterable[tuple[str, str]]


class WebhookHttpResponse(NamedTuple):
    """Response: status, headers and body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class WebhookHttpClient:
    """Client of one server; `address` resolves it per request (raises `ServiceUnresolvable`), `trust` runs once."""

    def __init__(
        self, host: str, address: Callable[[], HostPort], trust: Callable[[], ssl.SSLContext], server_name: str
    ) -> None:
        self.host = host  # with the port, as in the Host header
        self._address = address
        self._trust = trust
        self._server_name = server_name
        self._context: ssl.SSLContext | None = None
        self._idle = IdleConnectionPool()

    async def request(
        self, method: str, target: str, headers: Headers, body: bytes, seconds: float
    ) -> WebhookHttpResponse:
        """Send a request and return the complete response.

        Raises `RemoteUnreachable`, with the message of Go's client, if there is none within `seconds`.
        """
        sent = _request_bytes(method, target, (("Host", self.host), *headers), body)
        if asyncio.current_task() is None:
            await asyncio.sleep(0)  # a handler has no task until it first waits, and a timeout needs one
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(sent, seconds)
        except TimeoutError:
            raise RemoteUnreachable(_LATE) from None
        except ServiceUnresolvable as error:
            raise RemoteUnreachable(str(error)) from None

    def close(self) -> None:
        """Close the idle connections."""
        self._idle.close()

    async def _exchange(self, sent: bytes, seconds: float) -> WebhookHttpResponse:
        address = self._address()
        reused = self._idle.take(address)
        if reused is not None:
            try:
                return await self._ask(address, reused, sent)
            except RemoteUnreachable as error:
                # It closed the idle connection before it received anything; the request may be sent again.
                if str(error) != "EOF":
                    raise
        connection = await dial(*address, self._verified(), self._server_name, seconds)
        return await self._ask(address, connection, sent)

    async def _ask(self, address: HostPort, connection: RemoteConnection, sent: bytes) -> WebhookHttpResponse:
        try:
            head = await connection.ask(sent)
            body = await _read_bounded(connection, head)
        except BaseException:
            connection.close()
            raise
        self._idle.keep(address, connection)
        return WebhookHttpResponse(head.status, head.headers, body)

    def _verified(self) -> ssl.SSLContext:
        if self._context is None:
            try:
                self._context = self._trust()
            except (OSError, ValueError):  # ssl.SSLError is an OSError
                raise RemoteUnreachable(
                    "unable to load root certificates: unable to parse bytes as PEM block"
                ) from None
        return self._context


async def _read_bounded(connection: RemoteConnection, head: ResponseHead) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in connection.pieces():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_RESPONSE_BYTES:
            raise RemoteUnreachable(f"http: response body too large: more than {_MAX_RESPONSE_BYTES} bytes")
    return b"".join(pieces)


def _request_bytes(method: str, target: str, headers: Headers, body: bytes) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode() + body
