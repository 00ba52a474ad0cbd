# SPDX-License-Identifier: Apache-2.0
"""Responses of extension API servers, passed to the client: complete, streamed, or as an upgraded connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.http import Response, ResponseStream, StreamResponse, TakeOver, UpgradeResponse, encode_chunk
from kubeloop.http.client import HttpClientConnection, ResponseHead

TEXT = "text/plain; charset=utf-8"
# Responses up to this size are read completely; longer ones, and those of unknown length, are streamed.
_WHOLE_BYTES = 1 << 20
# Headers that the HTTP layer writes itself.
_HTTP_LAYER_HEADERS = (
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "content-type",
    "date",
    "audit-id",
)

Done = Callable[[HttpClientConnection], None]


def plain_text(status: int, message: str) -> Response:
    """Return an error of the proxy itself, which upstream writes as plain text."""
    headers = (("X-Content-Type-Options", "nosniff"),)
    return Response(status, f"{message}\n".encode(), TEXT, headers)


async def proxied_response(connection: HttpClientConnection, head: ResponseHead, done: Done) -> Response:
    """Return the response that a head begins; `done` releases the connection after the body has been read."""
    content_type, headers = head.headers.get("content-type", ""), _headers(head)
    if head.status == 101:
        return UpgradeResponse(relay_upgrade(connection), _upgrade_headers(head))
    length = head.headers.get("content-length", "")
    if connection.is_complete or (length.isdigit() and int(length) <= _WHOLE_BYTES):
        body = await connection.read_body()
        done(connection)
        return Response(head.status, body, content_type, headers)
    return ProxiedStreamResponse(head.status, content_type, headers, connection, done)


class ProxiedStreamResponse(StreamResponse):
    """Streamed response: each piece is sent on receipt, at the client's pace."""

    __slots__ = ("_connection", "_done")

    def __init__(
        self,
        status: int,
        content_type: str,
        headers: tuple[tuple[str, str], ...],
        connection: HttpClientConnection,
        done: Done,
    ) -> None:
        super().__init__(status, b"", content_type, headers)
        self._connection = connection
        self._done = done

    def run(self, stream: ResponseStream) -> Awaitable[None]:
        """Copy the body to the stream."""
        return self._run(stream)

    async def _run(self, stream: ResponseStream) -> None:
        try:
            while piece := await self._connection.read_piece():
                stream.write(encode_chunk(piece))
                await stream.wait_drained()
                if stream.closed:
                    return
            self._done(self._connection)
        finally:
            if not self._connection.is_complete:
                self._connection.abort()


def relay_upgrade(connection: HttpClientConnection) -> TakeOver:
    """Return the function that relays between a client's transport and the upgraded connection to a server."""

    def take_over(client: asyncio.Transport, early: bytes) -> None:
        server, received = connection.detach()
        server.set_protocol(RelayProtocol(client, client.close))
        client.set_protocol(RelayProtocol(server, server.abort))
        if early:
            server.write(early)
        if received:
            client.write(received)
        if server.is_closing():
            client.close()

    return take_over


class RelayProtocol(asyncio.Protocol):
    """Protocol of one transport that writes received data to another, and pauses it while the own buffer is full."""

    def __init__(self, other: asyncio.Transport, on_end: Callable[[], None]) -> None:
        self._other = other
        self._on_end = on_end

    def data_received(self, data: bytes) -> None:
        """Write to the other side."""
        self._other.write(data)

    def pause_writing(self) -> None:
        """Stop to read from the other side."""
        if not self._other.is_closing():
            self._other.pause_reading()

    def resume_writing(self) -> None:
        """Continue to read from the other side."""
        if not self._other.is_closing():
            self._other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side."""
        self._on_end()


def _headers(head: ResponseHead) -> tuple[tuple[str, str], ...]:
    return tuple((_canonical(name), value) for name, value in head.fields if name.lower() not in _HTTP_LAYER_HEADERS)


def _upgrade_headers(head: ResponseHead) -> tuple[tuple[str, str], ...]:
    return (("Connection", "Upgrade"), *_headers(head))


def _canonical(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def unreachable_response(error: RemoteUnreachable) -> Response:
    """Return the 503 response for an unreachable server."""
    return plain_text(503, str(error))
