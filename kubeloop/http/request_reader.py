# SPDX-License-Identifier: Apache-2.0
"""Request reader: llhttp parses; this module enforces limits and assembles requests."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from enum import Enum

import httptools
from httptools.parser.errors import HttpParserCallbackError, HttpParserError, HttpParserUpgrade

from kubeloop.http.limits import HttpLimits
from kubeloop.http.messages import Request, TruncatedRequest

_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}

# Header names that nearly every request carries, already in lower case.
_NAMES = {
    name.encode(): name.lower()
    for name in (
        *("Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type", "Host"),
        *("Kubectl-Command", "Kubectl-Session", "Transfer-Encoding", "User-Agent", "Audit-Id"),
    )
}

_LINE_OVERHEAD = 4  # a colon, a space and the line end


RawHeaders = list[tuple[bytes, bytes]]


class ReadStage(Enum):
    """Position of the client within a request."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"


class RequestRejection(Exception):
    """Error for a violated rule or limit: the response to send before closing.

    `request` is set if only the body of that request is too large.
    """

    def __init__(self, status: int, message: str, request: TruncatedRequest | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.request = request


class RequestReader:
    """Assembles the requests of one connection.

    `stage` and `since` (loop time) tell the client's position and since when it is there. After a rejection, an upgrade
    or a request that ends the connection, `finished` is set and further bytes are ignored.
    """

    __slots__ = (
        "_body",
        "_body_size",
        "_last_headers",
        "_last_raw_headers",
        "_last_repeated",
        "_limits",
        "_loop",
        "_on_expectation",
        "_on_request",
        "_parser",
        "_raw_headers",
        "_raw_size",
        "_request",
        "_url",
        "finished",
        "leftover",
        "since",
        "stage",
    )

    def __init__(
        self,
        limits: HttpLimits,
        loop: AbstractEventLoop,
        on_request: Callable[[Request], None],
        on_expectation: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._loop = loop
        self._on_request = on_request
        self._on_expectation = on_expectation
        self._parser = httptools.HttpRequestParser(self)
        self._request: Request | None = None
        self._last_raw_headers: RawHeaders = []
        self._last_headers: dict[str, str] = {}
        self._last_repeated: dict[str, list[str]] = {}
        self.stage = ReadStage.IDLE
        self.since = loop.time()
        self.finished = False
        self.leftover = b""
        self.on_message_begin()
        self.stage = ReadStage.IDLE

    def feed(self, data: bytes) -> RequestRejection | None:
        """Parse received bytes; completed requests have been passed on when this returns."""
        stage_before = self.stage
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self.finished = True
            self.leftover = data[upgrade.args[0] :]
            return None
        except HttpParserCallbackError as error:
            return self._reject(error.__context__)
        except HttpParserError as error:
            # Data after a request that closes the connection is never answered.
            return None if self.finished else self._reject(RequestRejection(400, f"malformed request: {error}"))
        if self.stage is not ReadStage.IDLE and self.stage is stage_before:
            return self._limit_unparsed(len(data))
        return None

    def close(self) -> None:
        """Drop the parser and the callbacks: their cycles would keep a lost connection until garbage is collected."""
        self.finished = True
        del self._parser, self._on_request, self._on_expectation

    def _reject(self, cause: BaseException | None) -> RequestRejection:
        if not isinstance(cause, RequestRejection):
            raise cause or RuntimeError("the parser failed without a reason")
        self.finished = True
        return cause

    def _limit_unparsed(self, size: int) -> RequestRejection | None:
        """Limit what the parser consumes silently: endless header lines, chunk extensions, trailers."""
        self._raw_size += size
        if self.stage is ReadStage.HEAD:
            return self._reject(self._head_too_large()) if self._raw_size > self._limits.head_bytes else None
        allowed = 2 * self._limits.body_bytes + self._limits.head_bytes
        return self._reject(self._body_too_large()) if self._raw_size > allowed else None

    def _head_too_large(self) -> RequestRejection:
        return RequestRejection(431, "Request Header Fields Too Large")

    def _body_too_large(self) -> RequestRejection:
        limit, request = self._limits.body_bytes, self._request
        truncated = TruncatedRequest(request, limit) if request is not None else None
        return RequestRejection(413, f"Request entity too large: limit is {limit}", truncated)

    # Callbacks of llhttp, in this order.

    def on_message_begin(self) -> None:
        """Start a request (parser callback)."""
        self.stage = ReadStage.HEAD
        self.since = self._loop.time()
        self._url = b""
        self._raw_headers: RawHeaders = []
        self._raw_size = 0
        self._body: list[bytes] = []
        self._body_size = 0

    def on_url(self, url: bytes) -> None:
        """Append to the URL (parser callback)."""
        self._url = self._url + url if self._url else url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a header (parser callback)."""
        self._raw_headers.append((name, value))
        if len(self._raw_headers) > self._limits.header_fields:
            raise self._head_too_large()

    def on_headers_complete(self) -> None:
        """Assemble the request from URL and headers (parser callback)."""
        headers = self._decode_headers()
        self._raw_headers = []  # for the trailers, which are ignored
        request = self._request = self._assemble(headers)
        if "content-length" in headers or "transfer-encoding" in headers:
            self._expect_body(request)

    def _decode_headers(self) -> dict[str, str]:
        raw = self._raw_headers
        if raw != self._last_raw_headers:  # a client on a persistent connection mostly repeats its headers
            size = sum([len(name) + len(value) + _LINE_OVERHEAD for name, value in raw])
            if size + len(self._url) > self._limits.head_bytes:
                raise self._head_too_large()
            self._last_headers, self._last_repeated = _decoded(raw)
            self._last_raw_headers = raw
        elif len(self._url) > self._limits.head_bytes:
            raise self._head_too_large()
        return self._last_headers.copy()

    def _assemble(self, headers: dict[str, str]) -> Request:
        parser = self._parser
        version = parser.get_http_version()
        if version != "1.1" and version != "1.0":
            raise RequestRejection(505, "unsupported protocol version")
        if version == "1.1" and "host" not in headers:
            raise RequestRejection(400, "missing required Host header")
        if version == "1.0" and "transfer-encoding" in headers:
            # A proxy that knows no chunks in this version would see the end of the request somewhere else.
            raise RequestRejection(400, "unsupported transfer encoding")
        method = parser.get_method()
        path, _, query = self._url.decode("latin-1").partition("?")
        request = Request(_METHODS.get(method) or method.decode("latin-1"), path, query, headers)
        if self._last_repeated:
            request.repeated = self._last_repeated
        if not path.startswith("/") and "://" in path:
            request.path = "/" + path.split("://", 1)[1].partition("/")[2]  # the absolute form, as sent to a proxy
        request.http_1_0 = version == "1.0"
        request.keep_alive = parser.should_keep_alive()
        request.upgrade = parser.should_upgrade()
        return request

    def _expect_body(self, request: Request) -> None:
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > self._limits.body_bytes:
            raise self._body_too_large()
        if request.upgrade and (int(declared) or "transfer-encoding" in request.headers):
            raise RequestRejection(400, "an upgrade request cannot carry a body")
        self.stage = ReadStage.BODY
        self.since = self._loop.time()
        self._raw_size = 0
        expectation = request.headers.get("expect")
        if expectation is not None and not request.http_1_0:
            if expectation.lower() != "100-continue":
                raise RequestRejection(417, "unknown expectation")
            self._on_expectation()

    def on_body(self, data: bytes) -> None:
        """Append to the body, within its limit (parser callback)."""
        self._body_size += len(data)
        if self._body_size > self._limits.body_bytes:
            raise self._body_too_large()
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Pass the complete request on (parser callback)."""
        request = self._request
        assert request is not None, "a message cannot end before its header section"
        if self._body:
            request.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self.stage = ReadStage.IDLE
        self.finished = not request.keep_alive
        self._on_request(request)


# Headers of which the first counts, as in Go.
_SINGLE = frozenset(("authorization", "content-type"))


def _decoded(raw: RawHeaders) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the headers, and the single values of those that are repeated."""
    headers: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    for name, value in raw:
        key = _NAMES.get(name) or name.decode("latin-1").lower()
        text = value.decode("latin-1").rstrip(" \t")
        if key in headers:
            repeated.setdefault(key, [headers[key]]).append(text)
        else:
            headers[key] = text
    if "host" in repeated:
        raise RequestRejection(400, "too many Host headers")
    for key, values in repeated.items():
        if key not in _SINGLE:
            headers[key] = ", ".join(values)
    return headers, repeated
