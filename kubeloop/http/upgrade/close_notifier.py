# SPDX-License-Identifier: Apache-2.0
"""Notification of the end of a connection that was taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def notify_on_close(transport: asyncio.Transport, on_close: Callable[[], None]) -> None:
    """Call a function once when a transport closes, whatever protocol it has now."""
    protocol = transport.get_protocol()
    if transport.is_closing() or not isinstance(protocol, asyncio.Protocol):
        on_close()
        return
    transport.set_protocol(_CloseNotifier(protocol, on_close))


class _CloseNotifier(asyncio.Protocol):
    """Protocol that passes everything on to another one."""

    def __init__(self, inner: asyncio.Protocol, on_close: Callable[[], None]) -> None:
        self._inner = inner
        self._on_close = on_close
        self.data_received = inner.data_received  # type: ignore[method-assign]  # without a call in between
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_close()
        self._inner.connection_lost(exc)
