"""Responses of extension API servers, passed to the client: complete, streamed, or as an upgraded connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from kubeloop.apiserver.aggregator.connection import RemoteConnection, RemoteUnreachable, ResponseHead
from kubeloop.http import Response, ResponseStream, StreamResponse, UpgradeResponse, encode_chunk

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
_RELAY_BYTES = 64 << 10
# Buffered bytes in one direction, above which the sender is paused.
_RELAY_BUFFER_BYTES = 1 << 20

Done = Callable[[RemoteConnection], None]


def plain_text(status: int, message: str) -> Response:
    """Return an error of the proxy itself, which upstream writes as plain text."""
    headers = (("X-Content-Type-Options", "nosniff"),)
    return Response(status, f"{message}\n".encode(), TEXT, headers)


async def proxied_response(connection: RemoteConnection, head: ResponseHead, done: Done) -> Response:
    """Return the response that a head begins; `done` releases the connection after the body has been read."""
    content_type, headers = head.text("content-type"), _headers(head)
    if head.status == 101:
        return UpgradeResponse(UpgradeRelay(connection).take_over, _upgrade_headers(head))
    length = head.text("content-length")
    if connection.complete or (length.isdigit() and int(length) <= _WHOLE_BYTES):
        body = await connection.whole()
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
        connection: RemoteConnection,
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
            async for piece in self._connection.pieces():
                stream.write(encode_chunk(piece))
                await stream.drained()
                if stream.closed:
                    return
            self._done(self._connection)
        finally:
            if not self._connection.complete:
                self._connection.close()


class UpgradeRelay(asyncio.Protocol):
    """Relay between client and server after a protocol upgrade."""

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self._client: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        """Start to relay on the client's transport; `early` is data that was read already."""
        self._client = transport
        transport.set_protocol(self)
        if early:
            self._connection.writer.write(early)
        self._task = asyncio.get_running_loop().create_task(self._pump(transport))

    async def _pump(self, client: asyncio.Transport) -> None:
        """Copy from the server to the client; the other direction is `data_received`."""
        connection = self._connection
        try:
            if connection.early:
                client.write(connection.early)
            with suppress(OSError):
                while data := await connection.reader.read(_RELAY_BYTES):
                    client.write(data)
                    await self._room.wait()
        finally:
            connection.close()
            client.close()

    # Callbacks of the client's transport.

    def data_received(self, data: bytes) -> None:
        """Write the client's data to the server; pause reading while its buffer is full."""
        writer = self._connection.writer
        writer.write(data)
        if writer.transport.get_write_buffer_size() > _RELAY_BUFFER_BYTES:
            client = cast(asyncio.Transport, self._client)
            client.pause_reading()
            task = asyncio.get_running_loop().create_task(writer.drain())
            task.add_done_callback(self._drained)

    def _drained(self, task: asyncio.Task[None]) -> None:
        client = cast(asyncio.Transport, self._client)
        if task.cancelled() or task.exception() is not None:
            client.abort()
        elif not client.is_closing():
            client.resume_reading()

    def pause_writing(self) -> None:
        """Pause copying to the client."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Resume copying to the client."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the server's connection."""
        self._room.set()
        self._connection.close()


def _headers(head: ResponseHead) -> tuple[tuple[str, str], ...]:
    return tuple((_canonical(name), value) for name, value in head.headers if name.lower() not in _HTTP_LAYER_HEADERS)


def _upgrade_headers(head: ResponseHead) -> tuple[tuple[str, str], ...]:
    return (("Connection", "Upgrade"), *_headers(head))


def _canonical(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def unreachable_response(error: RemoteUnreachable) -> Response:
    """Return the 503 response for an unreachable server."""
    return plain_text(503, str(error))
