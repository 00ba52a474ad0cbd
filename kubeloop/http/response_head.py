# SPDX-License-Identifier: Apache-2.0
"""Encoder of response heads; repeated parts are encoded once."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from functools import lru_cache
from http import HTTPStatus

from kubeloop.clock import Clock
from kubeloop.http.messages import Headers, Response

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NO_BODY_STATUSES = frozenset({101, 204, 304})
_CONNECTION_CLOSE = b"Connection: close\r\n"
_CONNECTION_KEEP = b"Connection: keep-alive\r\n"  # only HTTP/1.0 needs it


class HeadWriter:
    """Encodes response heads; the Date header changes once per second."""

    __slots__ = ("_clock", "_date", "_loop", "_next_second")

    def __init__(self, clock: Clock, loop: AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._next_second = -1.0  # loop time from which the Date header is another
        self._date = b""

    def sized(self, response: Response, length: int, connection: bytes) -> bytes:
        """Return the head of a response of known length."""
        start = _start(response.status, response.content_type)
        fields = _fields(response.headers) if response.headers else b""
        if response.status in NO_BODY_STATUSES:
            return b"%b%b%b%b\r\n" % (start, fields, self._date_line(), connection)
        return b"%b%b%b%bContent-Length: %d\r\n\r\n" % (start, fields, self._date_line(), connection, length)

    def chunked(self, response: Response, connection: bytes) -> bytes:
        """Return the head of a stream."""
        start = _start(response.status, response.content_type)
        fields = _fields(response.headers)
        return b"%b%b%b%bTransfer-Encoding: chunked\r\n\r\n" % (start, fields, self._date_line(), connection)

    def _date_line(self) -> bytes:
        time = self._loop.time()
        if time >= self._next_second:
            self._next_second = int(time) + 1.0
            now = self._clock.now()
            day, month = _DAYS[now.weekday()], _MONTHS[now.month - 1]  # strftime would follow the locale
            self._date = f"Date: {day}, {now:%d} {month} {now:%Y %H:%M:%S} GMT\r\n".encode()
        return self._date


def connection_field(keep_alive: bool, http_1_0: bool) -> bytes:
    """Return the Connection header, unless it is the default of the protocol's version."""
    if not keep_alive:
        return _CONNECTION_CLOSE
    return _CONNECTION_KEEP if http_1_0 else b""


@lru_cache(maxsize=256)
def _start(status: int, content_type: str) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    line = f"HTTP/1.1 {status} {phrase}\r\n"
    return (line + f"Content-Type: {content_type}\r\n" if content_type else line).encode()


def _fields(headers: Headers) -> bytes:
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        # A line break in a value would allow header injection.
        text = "".join([f"{name}: {_one_line(value)}\r\n" for name, value in headers])
    return text.encode("utf-8", "replace")


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")
