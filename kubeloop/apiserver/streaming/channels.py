# SPDX-License-Identifier: Apache-2.0
"""WebSocket messages with channel numbers: binary, or base64 for old browsers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

from kubeloop.http.upgrade.websocket import WebSocket, offered_protocols

_CLOSE = 255
BINARY, BASE64 = "channel.k8s.io", "base64.channel.k8s.io"
V5, V4, V4_BASE64 = f"v5.{BINARY}", f"v4.{BINARY}", f"v4.{BASE64}"


def negotiate_protocol(headers: Mapping[str, str], known: tuple[str, ...]) -> str | None:
    """Return the first offered protocol that is known; empty if none is offered, None if none is known."""
    offered = offered_protocols(headers)
    return next((one for one in offered if one in known), None) if offered else ""


class Channels:
    """WebSocket with channels; `on_data` receives messages, `on_close` the end of a channel."""

    def __init__(
        self,
        protocol: str,
        on_data: Callable[[int, bytes], None],
        on_close: Callable[[int], None],
        on_end: Callable[[], None],
    ) -> None:
        self._on_data = on_data
        self._on_close = on_close
        self._can_close = protocol == V5
        self._is_text = protocol.endswith(BASE64)
        self.socket = WebSocket(self._receive, on_end)
        self.socket.text = self._is_text

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel once the peer has room."""
        await self.socket.send(self._frame(channel, data))

    def _frame(self, channel: int, data: bytes) -> bytes:
        if self._is_text:
            return bytes([ord("0") + channel]) + base64.b64encode(data)
        return bytes([channel]) + data

    def _receive(self, message: bytes) -> None:
        if not message:
            return
        channel, data = message[0], message[1:]
        if self._can_close and channel == _CLOSE:
            if len(data) == 1:
                self._on_close(data[0])
            return
        if self._is_text:
            channel -= ord("0")
            try:
                data = base64.b64decode(data, validate=True)
            except binascii.Error:
                return
        if 0 <= channel < _CLOSE:
            self._on_data(channel, data)
