"""HTTP/1.1 client connection to an extension API server; responses are streamed, and llhttp parses them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httptools
from httptools.parser.errors import HttpParserError, HttpParserUpgrade

_READ_BYTES = 64 << 10
_HEAD_BYTES = 256 << 10
# OpenSSL's codes for a certificate that no trusted authority has signed.
_UNTRUSTED = (18, 19, 20, 21)


class RemoteUnreachable(Exception):
    """Error for a missing response, with the reason as upstream's clients word it."""


class UnknownAuthority(RemoteUnreachable):
    """Error for a server certificate that no trusted authority has signed."""

    def __init__(self) -> None:
        super().__init__("tls: failed to verify certificate: x509: certificate signed by unknown authority")


class ResponseHead(NamedTuple):
    """Status and headers of a response; header names as they were sent."""

    status: int
    headers: tuple[tuple[str, str], ...]

    def text(self, name: str) -> str:
        """Return the first header of a lower-case name; empty if there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


class RemoteConnection:
    """Connection with at most one exchange at a time.

    `_pieces` holds the received parts of the body; `complete` means that its last byte has been received. After an
    upgrade, `early` are the bytes that follow the head.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.early = b""
        self.complete = True
        self._keep_alive = True
        self._begin()

    def _begin(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._fields: list[tuple[str, str]] = []
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []
        self._heard = 0
        self._ends_with_connection = False

    @property
    def is_usable(self) -> bool:
        """True if another request may be sent."""
        return self.complete and self._keep_alive and not self.reader.at_eof() and not self.writer.is_closing()

    async def ask(self, request: bytes, *, bodyless: bool = False) -> ResponseHead:
        """Send a request and return the head of its response; `bodyless` is for HEAD requests."""
        self._begin()
        self.complete = False
        self.writer.write(request)
        while self._head is None:
            await self._read()
            if self._heard > _HEAD_BYTES and self._head is None:
                raise RemoteUnreachable("net/http: server response headers exceeded 262144 bytes; aborted")
        if bodyless:
            self.complete, self._keep_alive = True, False
        return self._head

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it is received."""
        while True:
            while self._pieces:
                yield self._pieces.pop(0)
            if self.complete:
                return
            await self._read()

    async def whole(self) -> bytes:
        """Return the complete body."""
        return b"".join([piece async for piece in self.pieces()])

    def close(self) -> None:
        """Abort the connection."""
        self.writer.transport.abort()

    async def _read(self) -> None:
        try:
            data = await self.reader.read(_READ_BYTES)
        except OSError as error:
            raise RemoteUnreachable(reason_of(error)) from None
        if not data:
            self._ended()
            return
        self._heard += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self.early = data[upgrade.args[0] :]
            self.complete, self._keep_alive = True, False
        except HttpParserError as error:
            raise RemoteUnreachable(f"net/http: malformed HTTP response: {error}") from None

    def _ended(self) -> None:
        self._keep_alive = False
        if self._head is None or not self._ends_with_connection:
            raise RemoteUnreachable("EOF" if self._head is None else "unexpected EOF")
        self.complete = True

    # Parser callbacks.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header (parser callback)."""
        self._fields.append((name.decode("latin-1"), value.decode("utf-8", "replace")))

    def on_headers_complete(self) -> None:
        """Store the head (parser callback); interim responses are skipped."""
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            self._fields = []  # an interim response; the final one follows
            return
        head = self._head = ResponseHead(status, tuple(self._fields))
        sized = head.text("content-length") or "chunked" in head.text("transfer-encoding").lower()
        self._ends_with_connection = not sized and status not in (101, 204, 304)

    def on_body(self, piece: bytes) -> None:
        """Store a part of the body (parser callback)."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Mark the response as complete (parser callback)."""
        if self._head is not None:
            self._keep_alive = self._parser.should_keep_alive() and not self._ends_with_connection
            self.complete = True


async def dial(host: str, port: int, context: ssl.SSLContext, server_name: str, seconds: float) -> RemoteConnection:
    """Open a connection; raises `RemoteUnreachable`."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname=server_name, limit=_READ_BYTES
            )
    except TimeoutError:
        raise RemoteUnreachable(f"dial tcp {where}: i/o timeout") from None
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _UNTRUSTED:
            raise UnknownAuthority from None
        raise RemoteUnreachable(f"tls: failed to verify certificate: x509: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise RemoteUnreachable(
            f"remote error: tls: {(error.reason or str(error)).lower().replace('_', ' ')}"
        ) from None
    except OSError as error:
        raise RemoteUnreachable(f"dial tcp {where}: connect: {reason_of(error)}") from None
    return RemoteConnection(reader, writer)


def reason_of(error: OSError) -> str:
    """Return the system's message for an error, in lower case as Go prints it."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or str(error) or type(error).__name__).lower()
