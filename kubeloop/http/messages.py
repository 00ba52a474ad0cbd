# SPDX-License-Identifier: Apache-2.0
"""Requests and responses: plain, streamed, and upgrades."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubeloop.http.stream import ResponseStream

Headers = tuple[tuple[str, str], ...]

# Takes over a connection after an upgrade: its transport, and the bytes received after the request.
TakeOver = Callable[[asyncio.Transport, bytes], None]

# Only these handlers are cancelled when the client leaves: a write may already be past its commit.
READ_ONLY_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


_NOT_REPEATED: Mapping[str, Sequence[str]] = MappingProxyType({})


def _decode_utf8(value: str) -> str:
    """Decode a value that was received as bytes; one that is not UTF-8 is left as it is."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


class Request:
    """Complete request with its body.

    `path` and `query` are raw, still percent-encoded. Header names are in lower case; values of a repeated header are
    joined with ", ", and `repeated` has them one by one. `upgrade` is True if the client requests another protocol on
    this connection. `exceeded_body_limit` is 0 unless the request is truncated.
    """

    __slots__ = (
        "body",
        "headers",
        "http_1_0",
        "keep_alive",
        "method",
        "path",
        "peer_certificate",
        "peer_intermediates",
        "query",
        "remote",
        "repeated",
        "upgrade",
    )

    exceeded_body_limit = 0

    def __init__(self, method: str, path: str, query: str = "", headers: dict[str, str] | None = None) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers: dict[str, str] = {} if headers is None else headers
        self.repeated: Mapping[str, Sequence[str]] = _NOT_REPEATED
        self.body = b""
        self.peer_certificate: bytes | None = None
        self.peer_intermediates: tuple[bytes, ...] = ()  # further certificates that the client sent
        self.remote: tuple[str, int] = ("", 0)
        self.upgrade = False
        self.keep_alive = True
        self.http_1_0 = False

    def header_values(self, name: str) -> Sequence[str]:
        """Return the values of a header, one for each of its lines: text in UTF-8, as in Go."""
        if (values := self.repeated.get(name)) is None:
            value = self.headers.get(name)
            values = () if value is None else (value,)
        return [_decode_utf8(value) for value in values]

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path}>"


class TruncatedRequest(Request):
    """Request whose body exceeds the limit in bytes: it is passed on without a body, to be rejected."""

    __slots__ = ("exceeded_body_limit",)

    def __init__(self, head: Request, limit: int) -> None:
        super().__init__(head.method, head.path, head.query, head.headers)
        self.repeated = head.repeated
        self.http_1_0 = head.http_1_0
        self.keep_alive = False
        self.exceeded_body_limit = limit


class Response:
    """Complete response. A body in many parts is written in slices, without being joined first."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int = 200,
        body: bytes | Sequence[bytes] = b"",
        content_type: str = "application/json",
        headers: Headers = (),
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


class StreamResponse(Response):
    """Streamed response: after its head is sent, `run` gets the stream.

    If `run` returns an awaitable, the stream ends with it; if it returns None, the stream lives until it is closed or
    the client leaves.
    """

    __slots__ = ()

    def run(self, stream: ResponseStream) -> Awaitable[None] | None:
        """Write to the stream, synchronously or by the returned awaitable."""
        raise NotImplementedError


class UpgradeResponse(Response):
    """Response to an upgrade: after its head, `take_over` owns the transport; `on_close` is called at its end."""

    __slots__ = ("on_close", "take_over")

    def __init__(self, take_over: TakeOver, headers: Headers = (), status: int = 101) -> None:
        super().__init__(status, b"", "", headers)
        self.take_over = take_over
        self.on_close: Callable[[], None] | None = None


class NoResponse(Response):
    """Placeholder for no response: the connection is broken off."""

    __slots__ = ()


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def encode_chunk(data: bytes) -> bytes:
    """Return one HTTP/1.1 chunk; a watch event is framed once for all its watchers."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
