# SPDX-License-Identifier: Apache-2.0
"""Requests as bytes, heads of responses, and failures of exchanges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple

RawHeaders = list[tuple[bytes, bytes]]

# Header names that nearly every response has, already in lower case.
_NAMES = {
    name.encode(): name.lower()
    for name in ("Audit-Id", "Cache-Control", "Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Warning")
}
_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
_WARNING = re.compile(r'\s*299 \S+ "((?:[^"\\]|\\.)*)"(?:\s+"[^"]*")?\s*,?')
_ESCAPED = re.compile(r"\\(.)")


class FailureKind(Enum):
    """Reason why an exchange failed."""

    CLOSED = auto()  # the connection ended before the head of the response
    CUT_OFF = auto()  # the connection ended within the response
    NOT_HTTP = auto()  # `detail` is the parser's message
    HEAD_TOO_LARGE = auto()  # `detail` is the limit in bytes
    BODY_TOO_LARGE = auto()  # `detail` is the limit in bytes
    UNREQUESTED = auto()  # `detail` is a sentence: more, or something else than was requested
    BROKEN_ENCODING = auto()  # `detail` is the decompressor's message


class ConnectionFailure(NamedTuple):
    """Failure of an exchange; `cause` is the system's error, if there is one."""

    kind: FailureKind
    detail: str = ""
    cause: Exception | None = None


# Converts a failure to the error that the owner of a connection raises.
ErrorOf = Callable[[ConnectionFailure], Exception]


class InvalidRequestHead(ValueError):
    """Error for a line break or a NUL, which would break the framing of a request."""


class ResponseHead:
    """Head of a response.

    `headers` has names in lower case, values of a repeated name joined with commas; `fields` is what was sent.
    """

    __slots__ = ("_raw", "headers", "status")

    def __init__(self, status: int, raw: RawHeaders) -> None:
        self.status = status
        self._raw = raw
        headers: dict[str, str] = {}
        for name, value in raw:
            key = _NAMES.get(name) or name.decode("latin-1").lower()
            text = value.decode("utf-8", "surrogateescape")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        self.headers: Mapping[str, str] = headers

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Names and values as sent, in their order."""
        return tuple((name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in self._raw)

    @property
    def is_success(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> int:
        """Seconds of Retry-After; dates are not understood, as in client-go."""
        text = self.headers.get("retry-after", "").strip()
        return int(text) if text.isascii() and text.isdigit() else 0

    def warnings(self) -> Iterable[str]:
        """Texts of the Warning headers."""
        text = self.headers.get("warning", "")
        return [_ESCAPED.sub(r"\1", found) for found in _WARNING.findall(text)] if text else ()


def encode_request(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """Return the bytes on the wire, with Content-Length; raises `InvalidRequestHead` for a header's value."""
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers:
        if "\n" in value or "\r" in value or "\0" in value:
            raise InvalidRequestHead(f"the value of header {name} contains a line break")
        lines.append(f"{name}: {value}")
    if body or method in _BODY_METHODS:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body
