# SPDX-License-Identifier: Apache-2.0
"""Client side of one connection: a request, then its response whole or in pieces, or the raw transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from kubeloop.http.client.messages import ConnectionFailure, ErrorOf, FailureKind, ResponseHead
from kubeloop.http.client.response_reader import ResponseReader

# A body whose reader is this far behind is not read from the socket until it has caught up: TCP backpressure.
_STREAM_BYTES = 1 << 20
# A body that is read as a whole may be this long, decompressed.
_BODY_BYTES = 1 << 30
# Bytes after an upgrade that are kept until its protocol takes over the transport.
_MAX_EARLY_BYTES = 64 << 10


class HttpClientConnection(asyncio.Protocol):
    """Client side of one connection; at most one exchange at a time, whose response is in `_reader`.

    `_head_due` resolves with its head. `_wake` is set while a reader waits: for the end of the body if `_whole`, for
    any of its bytes otherwise. Once `failure` is set, nothing more arrives. `error_of` words failures. A proxy passes
    upgrades on, and must not decompress bodies.
    """

    def __init__(
        self,
        error_of: ErrorOf,
        on_lost: Callable[[HttpClientConnection], None] | None = None,
        *,
        decompress: bool = False,
        may_upgrade: bool = True,
    ) -> None:
        self._error_of = error_of
        self._on_lost = on_lost
        self._reader = ResponseReader(decompress=decompress, may_upgrade=may_upgrade)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._head_due: asyncio.Future[ResponseHead] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._whole = False
        self._limit = _STREAM_BYTES
        self._paused = False
        self.failure: Exception | None = None

    @property
    def is_usable(self) -> bool:
        """True if another request may be sent."""
        reader = self._reader
        if not (reader.is_complete and reader.keep_alive):
            return False
        return self.failure is None and self._transport is not None and not self._transport.is_closing()

    @property
    def is_complete(self) -> bool:
        """True if no exchange has begun, or its last byte has arrived."""
        return self._reader.is_complete

    @property
    def received_bytes(self) -> bool:
        """True once a byte of the current response has arrived."""
        return self._reader.received > 0

    def get_extra_info(self, name: str) -> Any:
        """Return optional information of the transport, such as the TLS object."""
        return cast(asyncio.Transport, self._transport).get_extra_info(name)

    async def exchange(self, request: bytes, *, has_body: bool = True) -> ResponseHead:
        """Send a request; return the head of the response. HEAD requests have no body in their response."""
        self._reader.begin(has_body=has_body)
        self._whole, self._limit = False, _STREAM_BYTES
        if self.failure is not None:
            raise self.failure
        self._head_due = self._loop.create_future()
        self._transport.write(request)  # type: ignore[union-attr]  # an exchange follows the connection
        return await self._head_due

    async def read_body(self, limit: int = _BODY_BYTES) -> bytes:
        """Return the body, or the rest of it, once it is complete."""
        reader = self._reader
        self._whole, self._limit = True, limit
        self._resume()
        if reader.held > limit:
            raise self._fail(ConnectionFailure(FailureKind.BODY_TOO_LARGE, str(limit)))
        while not reader.is_complete:
            await self._wait_data()
        return reader.take()

    async def read_piece(self) -> bytes:
        """Return all of the body received since the last piece; empty at its end."""
        reader = self._reader
        piece = b""
        while not piece and (reader.pieces or not reader.is_complete):
            if not reader.pieces:
                await self._wait_data()
            piece = reader.take()
        self._resume()
        return piece

    def detach(self) -> tuple[asyncio.Transport, bytes]:
        """Return the transport after an upgrade, and the bytes already read; the caller sets its protocol at once."""
        assert self._transport is not None, "an upgrade requires a completed exchange"
        self._resume()
        return self._transport, self._reader.early

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _wait_data(self) -> None:
        if self.failure is not None:
            raise self.failure
        self._wake = self._loop.create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        """Feed the response reader; abort on bytes outside of an exchange."""
        reader = self._reader
        if reader.is_complete:
            self._on_early_bytes(reader, data)
            return
        failure = reader.feed(data)
        self._notify(reader)
        if failure is not None:
            self._fail(failure)

    def eof_received(self) -> bool:
        """Let asyncio close the transport."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Complete a body that ends with the connection; fail any other exchange."""
        reader = self._reader
        failure = reader.end(error)
        self._notify(reader)
        self._fail(failure)
        if self._on_lost is not None:
            self._on_lost(self)

    def _on_early_bytes(self, reader: ResponseReader, data: bytes) -> None:
        """Keep what follows an upgrade; abort a connection that is out of sync."""
        if reader.head is None or reader.head.status != 101:
            self._fail(ConnectionFailure(FailureKind.UNREQUESTED, "the server sent data beyond the response"))
            return
        reader.early += data
        if len(reader.early) > _MAX_EARLY_BYTES:
            self._pause()

    def _notify(self, reader: ResponseReader) -> None:
        """Resolve whatever the reader's progress was awaited by."""
        if self._head_due is not None and reader.head is not None:
            due, self._head_due = self._head_due, None
            if not due.done():
                due.set_result(reader.head)
        if reader.held > self._limit:
            self._on_overflow()
        if self._wake is not None and (reader.is_complete or (reader.pieces and not self._whole)):
            wake, self._wake = self._wake, None
            if not wake.done():
                wake.set_result(None)

    def _on_overflow(self) -> None:
        if self._whole:
            self._fail(ConnectionFailure(FailureKind.BODY_TOO_LARGE, str(self._limit)))
        else:
            self._pause()

    def _pause(self) -> None:
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _fail(self, failure: ConnectionFailure) -> Exception:
        if self.failure is None:
            self.failure = self._error_of(failure)
        for waiter in (self._head_due, self._wake):
            if waiter is not None and not waiter.done():
                waiter.set_exception(self.failure)
        self.abort()
        return self.failure
