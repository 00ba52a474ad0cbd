"""HTTP/1.1 connection to a server, parsed by llhttp: one request, its response whole or in pieces."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Any, cast

import httptools
from httptools.parser.errors import HttpParserError, HttpParserUpgrade

from kubeloop.client.errors import ConnectionLost, ProtocolError, TransportError
from kubeloop.client.http.messages import Head

# A stream whose reader is this far behind is not read from until it has caught up: TCP tells the server.
_STREAM_BYTES = 1 << 20
# An answer that is not streamed may be this long, unpacked.
_ANSWER_BYTES = 1 << 30
_NO_BODY = (204, 304)


class HttpConnection(asyncio.Protocol):
    """Client side of one connection; at most one exchange at a time.

    During an exchange `_head_due` resolves with the head, and `_pieces` collects the body (decompressed) until it is
    taken; `_wake` is set while a reader waits for more. `complete` means that the response's last byte has arrived.
    Once `failure` is set, nothing more arrives.
    """

    def __init__(self, on_lost: Callable[[HttpConnection], None]) -> None:
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._head_due: asyncio.Future[Head] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        self._held = 0
        self._limit = _ANSWER_BYTES
        self._paused = False
        self._headers: dict[str, str] = {}
        self._unpack: Any = None
        self._ends_with_connection = False
        self.heard = False  # True once a byte of the current response has arrived
        self.complete = True
        self.keep_alive = True
        self.failure: TransportError | None = None

    # Called by the transport.

    @property
    def is_usable(self) -> bool:
        """True if another request may be sent."""
        transport = self._transport
        return self.complete and self.keep_alive and self.failure is None and not cast(Any, transport).is_closing()

    async def exchange(self, request: bytes, *, streamed: bool) -> Head:
        """Send a request; return when the head of the response has arrived."""
        self.complete = self.heard = self._ends_with_connection = False
        self._pieces = []
        self._held = 0
        self._unpack = None
        self._limit = _STREAM_BYTES if streamed else _ANSWER_BYTES
        if self.failure is not None:
            raise self.failure
        self._parser = httptools.HttpResponseParser(self)
        self._head_due = self._loop.create_future()
        cast(asyncio.Transport, self._transport).write(request)
        return await self._head_due

    async def whole_body(self) -> bytes:
        """Return the body once it is complete."""
        while not self.complete:
            await self._more()
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        return body

    async def next_piece(self) -> bytes:
        """Return all of the body received since the last piece; empty at its end."""
        piece = b""
        while not piece and not (self.complete and not self._pieces):
            if not self._pieces:
                await self._more()
            piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces = []
        self._held = 0
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
        return piece

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _more(self) -> None:
        if self.failure is not None:
            raise self.failure
        self._wake = self._loop.create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        """Feed bytes to the parser; abort on bytes outside of an exchange."""
        if self.complete:  # no request is pending: the connection is out of sync
            self.keep_alive = False
            self.abort()
            return
        self.heard = True
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail(ProtocolError("the server switched to another protocol"))
        except HttpParserError as error:
            self._fail(ProtocolError(f"the answer is not HTTP: {error}"))

    def eof_received(self) -> bool:
        """Let asyncio close the transport."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Complete a body that ends with the connection; fail any other exchange."""
        if self._ends_with_connection and not self.complete and error is None:
            self.on_message_complete()
        reason = f": {error}" if error is not None and str(error) else ""
        self._fail(ConnectionLost(f"the server closed the connection{reason}"))
        self._on_lost(self)

    def _fail(self, failure: TransportError) -> None:
        if self.failure is None:
            self.failure = failure
        self.keep_alive = False
        if self._head_due is not None and not self._head_due.done():
            self._head_due.set_exception(self.failure)
        if self._wake is not None and not self._wake.done():
            self._wake.set_exception(self.failure)
        self.abort()

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        """Begin to collect headers; fail if no request is pending."""
        self._headers = {}
        if self.complete:  # no request is pending
            self._fail(ProtocolError("the server sent more than it was asked for"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; repeated headers are joined with commas."""
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "surrogateescape")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Resolve the head of a final response and prepare to decompress its body."""
        status = self._parser.get_status_code()
        if status < 200 or self.complete:
            return
        headers = self._headers
        encoding = headers.get("content-encoding", "").lower()
        if encoding == "gzip":
            self._unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif encoding not in ("", "identity"):
            self._fail(ProtocolError(f"the answer's content encoding is {encoding}, which was not asked for"))
            return
        sized = "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
        self._ends_with_connection = not sized and status not in _NO_BODY
        if self._head_due is not None and not self._head_due.done():
            self._head_due.set_result(Head(status, headers))

    def on_body(self, piece: bytes) -> None:
        """Store a piece of the body, decompressed."""
        if self.complete:
            return
        if self._unpack is not None:
            piece = self._unpacked(piece)
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held > self._limit:
            self._overfull()
        if self._limit == _STREAM_BYTES:
            self._waken()

    def _unpacked(self, piece: bytes) -> bytes:
        try:
            return cast(bytes, self._unpack.decompress(piece))
        except zlib.error as error:
            self._fail(ProtocolError(f"the answer's compressed body is broken: {error}"))
            return b""

    def _overfull(self) -> None:
        if self._limit != _STREAM_BYTES:
            self._fail(ProtocolError(f"the answer is longer than {_ANSWER_BYTES} bytes"))
        elif not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Mark the response as complete; interim responses are ignored."""
        if self.complete or self._parser.get_status_code() < 200:  # an interim answer; the real one follows
            return
        if self._unpack is not None and not self._unpack.eof and self._parser.get_status_code() not in _NO_BODY:
            self._fail(ProtocolError("the answer's compressed body is broken: it is cut off"))
            return
        self.keep_alive = self._parser.should_keep_alive() and not self._ends_with_connection
        self.complete = True
        self._waken()

    def _waken(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
