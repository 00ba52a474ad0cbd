"""What comes back from an extension API server, as an answer of ours: whole, a stream, or a connection handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from kubeloop.apiserver.aggregator.connection import Connection, Head, Unreachable
from kubeloop.http import HijackResponse, Response, Stream, StreamResponse, frame

TEXT = "text/plain; charset=utf-8"
# Answers up to this size are read whole; longer ones, and those of unknown length, are passed on as they come.
_WHOLE_BYTES = 1 << 20
# These the HTTP layer writes itself.
_OURS = ("connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "date", "audit-id")
_RELAY_BYTES = 64 << 10
# What has come from one end and the other has not taken yet; beyond that the first has to wait.
_RELAY_HELD_BYTES = 1 << 20

Done = Callable[[Connection], None]


def plain_text(status: int, message: str) -> Response:
    """A refusal of the proxy itself, which upstream writes as text."""
    headers = (("X-Content-Type-Options", "nosniff"),)
    return Response(status, f"{message}\n".encode(), TEXT, headers)


async def answer_of(connection: Connection, head: Head, done: Done) -> Response:
    """The answer that a head begins; `done` takes the connection back when its body has been read."""
    content_type, headers = head.text("content-type"), _headers(head)
    if head.status == 101:
        return HijackResponse(Relay(connection).take_over, _upgrade_headers(head))
    length = head.text("content-length")
    if connection.complete or (length.isdigit() and int(length) <= _WHOLE_BYTES):
        body = await connection.whole()
        done(connection)
        return Response(head.status, body, content_type, headers)
    return PassedOn(head.status, content_type, headers, connection, done)


class PassedOn(StreamResponse):
    """An answer that goes on: each piece is sent when it comes, and no faster than the client reads."""

    __slots__ = ("_connection", "_done")

    def __init__(
        self, status: int, content_type: str, headers: tuple[tuple[str, str], ...], connection: Connection, done: Done
    ) -> None:
        super().__init__(status, b"", content_type, headers)
        self._connection = connection
        self._done = done

    def run(self, stream: Stream) -> Awaitable[None]:
        return self._run(stream)

    async def _run(self, stream: Stream) -> None:
        try:
            async for piece in self._connection.pieces():
                stream.write(frame(piece))
                await stream.drained()
                if stream.closed:
                    return
            self._done(self._connection)
        finally:
            if not self._connection.complete:
                self._connection.close()


class Relay(asyncio.Protocol):
    """Two connections as one, after both ends have agreed to speak something else."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        self._client = transport
        transport.set_protocol(self)
        if early:
            self._connection.writer.write(early)
        self._task = asyncio.get_running_loop().create_task(self._pump(transport))

    async def _pump(self, client: asyncio.Transport) -> None:
        """From the server to the client; what the client sends comes through `data_received`."""
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

    # What the client's transport tells.

    def data_received(self, data: bytes) -> None:
        writer = self._connection.writer
        writer.write(data)
        if writer.transport.get_write_buffer_size() > _RELAY_HELD_BYTES:
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
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.set()
        self._connection.close()


def _headers(head: Head) -> tuple[tuple[str, str], ...]:
    return tuple((_canonical(name), value) for name, value in head.headers if name.lower() not in _OURS)


def _upgrade_headers(head: Head) -> tuple[tuple[str, str], ...]:
    return (("Connection", "Upgrade"), *_headers(head))


def _canonical(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def unreachable(error: Unreachable) -> Response:
    return plain_text(503, str(error))
