# SPDX-License-Identifier: Apache-2.0
"""Limits of the HTTP layer, and the hooks that word its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubeloop.http.messages import Request, Response


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """All limits; sizes in bytes, times in seconds. Defaults are upstream's, if it has one."""

    head_bytes: int = 1 << 20
    header_fields: int = 10_000
    body_bytes: int = 3 << 20
    head_timeout: float = 32.0
    body_timeout: float = 60.0
    idle_timeout: float = 180.0  # longer than client-go's 90 s, so that the client closes first
    stall_timeout: float = 60.0  # seconds for which a peer may leave written data unread
    linger_timeout: float = 1.0  # for which a rejected client may continue to send before it is cut off
    handshake_timeout: float = 10.0
    shutdown_timeout: float = 10.0  # for unsent data when a TLS connection is closed
    connections: int = 10_000
    pipelined: int = 128
    stream_bytes: int = 16 << 20
    gzip_above: int = 128 << 10

    @property
    def sweep_interval(self) -> float:
        """Seconds between checks of connections: short enough for the shortest timeout."""
        timeouts = (self.head_timeout, self.body_timeout, self.idle_timeout, self.stall_timeout, self.linger_timeout)
        return min(1.0, min(timeouts) / 4)


def _plain_rejection(status: int, message: str) -> Response:
    return Response(status, message.encode(), "text/plain; charset=utf-8")


def _plain_error(_request: Request, _error: BaseException) -> Response:
    return _plain_rejection(500, "internal server error")


def _no_timeout(_request: Request, _seconds: float) -> Response | None:
    return None


def _ignore_overflow(_request: Request) -> None:
    return None


def _ignore_handshake_error() -> None:
    return None


@dataclass(frozen=True, slots=True)
class HttpHooks:
    """Callbacks that word rejections and failures, and report cut streams and failed TLS handshakes.

    If the handler `handles_large_bodies`, it gets requests with too large a body as `TruncatedRequest` and has to
    reject them; otherwise `reject` words the response.

    `on_timeout` is called from time to time for a request that has been handled for some seconds. If it returns a
    response, that is sent at once: a read is cancelled, a write goes on, and an open stream is cut off.
    """

    reject: Callable[[int, str], Response] = field(default=_plain_rejection)
    on_error: Callable[[Request, BaseException], Response] = field(default=_plain_error)
    on_overflow: Callable[[Request], None] = field(default=_ignore_overflow)
    on_timeout: Callable[[Request, float], Response | None] = field(default=_no_timeout)
    on_handshake_error: Callable[[], None] = field(default=_ignore_handshake_error)
    handles_large_bodies: bool = False
