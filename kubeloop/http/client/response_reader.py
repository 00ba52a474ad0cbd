# SPDX-License-Identifier: Apache-2.0
"""Response reader: llhttp parses; this module enforces the head's limit and collects the body. No I/O."""

from __future__ import annotations

import zlib
from typing import Any, cast

import httptools
from httptools.parser.errors import HttpParserError, HttpParserUpgrade

from kubeloop.http.client.messages import ConnectionFailure, FailureKind, RawHeaders, ResponseHead

MAX_HEAD_BYTES = 256 << 10
_SWITCHING_PROTOCOLS = 101
_NO_BODY = (_SWITCHING_PROTOCOLS, 204, 304)
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class ResponseReader:
    """Reads the responses of one connection, one after the other; interim responses are skipped.

    `head` is set once it has arrived; `pieces` are the parts of the body that were not taken yet, `held` bytes in all.
    `is_complete` means that the response's last byte has arrived: `keep_alive` tells then if another request may
    follow, and `early` has the bytes that follow the head of an upgrade. After a failure, nothing more is read.
    """

    __slots__ = (
        "_decompress",
        "_ends_with_connection",
        "_failure",
        "_has_body",
        "_may_upgrade",
        "_parser",
        "_raw_headers",
        "_unpack",
        "early",
        "head",
        "held",
        "is_complete",
        "keep_alive",
        "pieces",
        "received",
    )

    def __init__(self, *, decompress: bool = False, may_upgrade: bool = False) -> None:
        self._decompress = decompress
        self._may_upgrade = may_upgrade
        self._parser: Any = httptools.HttpResponseParser(self)
        self._failure: ConnectionFailure | None = None
        self.early = b""
        self.keep_alive = True
        self.begin()
        self.is_complete = True

    def begin(self, *, has_body: bool = True) -> None:
        """Expect the response to another request, without a body if that is a HEAD."""
        self._has_body = has_body
        self._raw_headers: RawHeaders = []
        self._unpack: Any = None
        self._ends_with_connection = False
        self.head: ResponseHead | None = None
        self.pieces: list[bytes] = []
        self.held = 0
        self.received = 0  # bytes of the response, with those of interim ones
        self.is_complete = False

    def feed(self, data: bytes) -> ConnectionFailure | None:
        """Parse received bytes."""
        self.received += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
        except HttpParserError as error:
            self._fail(FailureKind.NOT_HTTP, str(error))
        if self.head is None and self.received > MAX_HEAD_BYTES:
            self._fail(FailureKind.HEAD_TOO_LARGE, str(MAX_HEAD_BYTES))
        return self._failure

    def end(self, cause: Exception | None) -> ConnectionFailure:
        """Complete a body that ends with the connection; return the reason why nothing more is received."""
        if self._ends_with_connection and not self.is_complete and cause is None:
            self.on_message_complete()
        self._parser = None  # it refers to this reader
        self.keep_alive = False
        within = self.head is not None and not self.is_complete
        return self._failure or ConnectionFailure(FailureKind.CUT_OFF if within else FailureKind.CLOSED, "", cause)

    def take(self) -> bytes:
        """Return the parts of the body that were not taken yet."""
        pieces = self.pieces
        self.pieces = []
        self.held = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _upgraded(self, early: bytes) -> None:
        if self._may_upgrade:
            self.early = early
            self.keep_alive = False
        else:
            self._fail(FailureKind.UNREQUESTED, "the server switched to another protocol")

    def _fail(self, kind: FailureKind, detail: str) -> None:
        if self._failure is None:
            self._failure = ConnectionFailure(kind, detail)

    # Callbacks of llhttp, in this order.

    def on_message_begin(self) -> None:
        """Begin to collect headers (parser callback); fail if the response is complete already."""
        self._raw_headers = []
        if self.is_complete:
            self._fail(FailureKind.UNREQUESTED, "the server sent data beyond the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a header (parser callback)."""
        self._raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Set the head of a final response (parser callback) and prepare to decompress its body."""
        status = self._parser.get_status_code()
        if self.is_complete or (status < 200 and not (status == _SWITCHING_PROTOCOLS and self._may_upgrade)):
            return
        head = ResponseHead(status, self._raw_headers)
        self._raw_headers = []  # for the trailers, which are ignored
        headers = head.headers
        if self._decompress and "content-encoding" in headers and not self._prepare(headers["content-encoding"]):
            return
        sized = "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
        self._ends_with_connection = not sized and status not in _NO_BODY
        self.head = head
        if not self._has_body:  # the parser would wait for one
            self.is_complete, self.keep_alive = True, False

    def _prepare(self, encoding: str) -> bool:
        """Prepare to decompress; return False for an encoding that was not requested."""
        encoding = encoding.lower()
        if encoding == "gzip":
            self._unpack = zlib.decompressobj(_GZIP_WINDOW)
        elif encoding not in ("", "identity"):
            text = f"the response has the content encoding {encoding}, which was not requested"
            self._fail(FailureKind.UNREQUESTED, text)
            return False
        return True

    def on_body(self, piece: bytes) -> None:
        """Append to the body, decompressed (parser callback)."""
        if self.is_complete or self._failure is not None:
            return
        if self._unpack is not None:
            piece = self._decompressed(piece)
        self.pieces.append(piece)
        self.held += len(piece)

    def _decompressed(self, piece: bytes) -> bytes:
        try:
            return cast(bytes, self._unpack.decompress(piece))
        except zlib.error as error:
            self._fail(FailureKind.BROKEN_ENCODING, str(error))
            return b""

    def on_message_complete(self) -> None:
        """Mark the response as complete (parser callback); interim responses are ignored."""
        head = self.head
        if self.is_complete or head is None or self._failure is not None:
            return
        if self._unpack is not None and not self._unpack.eof and head.status not in _NO_BODY:
            self._fail(FailureKind.BROKEN_ENCODING, "the body is truncated")
            return
        self.keep_alive = self._parser.should_keep_alive() and not self._ends_with_connection
        self.is_complete = True
