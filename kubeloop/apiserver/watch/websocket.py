# SPDX-License-Identifier: Apache-2.0
"""WebSockets of responses that only the server sends: watches, one event a message, and logs."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, Final

from kubeloop.apiserver.response.writers import encode_json_event, encode_protobuf_event
from kubeloop.apiserver.watch.hub import WatchEncoder
from kubeloop.http import HttpLimits, Response, UpgradeResponse
from kubeloop.http.upgrade.websocket import (
    BINARY,
    TEXT,
    WebSocket,
    choose_protocol,
    encode_frame,
    handshake_headers,
    offered_protocols,
)

# A watcher that leaves more than this unread is cut off, as on a chunked response.
_BUDGET: Final = HttpLimits().stream_bytes
_LOG_MESSAGE_BYTES: Final = 2048
_BINARY_PROTOCOL: Final = "binary.k8s.io"
_BASE64_PROTOCOL: Final = "base64.binary.k8s.io"
_ORIGIN: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


class WebSocketWatchEncoder:
    """Encodes events as messages; the objects are those of another encoder."""

    def __init__(self, objects: WatchEncoder, *, is_protobuf: bool) -> None:
        self._objects = objects
        self._is_protobuf = is_protobuf
        self.token: object = ("websocket", is_protobuf, objects.token)

    def encode_object(self, value: bytes, revision: int) -> bytes:
        """Return the encoded object of an event."""
        return self._objects.encode_object(value, revision)

    def encode_bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return the encoded object of a BOOKMARK event."""
        return self._objects.encode_bookmark(revision, initial_events_end)

    def encode_frame(self, kind: bytes, body: bytes) -> bytes:
        """Return an event as a frame of a WebSocket."""
        if self._is_protobuf:
            return encode_frame(BINARY, encode_protobuf_event(kind, body))
        return encode_frame(TEXT, encode_json_event(kind, body))


class WebSocketSink:
    """WebSocket of a watch or a log. Messages of the client are ignored."""

    def __init__(self, run: Callable[[WebSocketSink], Coroutine[Any, Any, None]]) -> None:
        self._run = run
        self._socket = WebSocket(lambda _: None, self._end)
        self._on_close: list[Callable[[], None]] = []
        self._running: asyncio.Task[None] | None = None
        self.closed = False

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        """Run the response on a connection."""
        self._socket.take_over(transport, early)
        self._running = asyncio.get_running_loop().create_task(self._run(self))
        self._running.add_done_callback(lambda _: self.close())

    def write(self, data: bytes) -> None:
        """Send encoded frames; a client that falls behind is cut off."""
        self._socket.write_frames(data)
        if self._socket.buffered > _BUDGET:
            self._socket.abort()

    async def wait_drained(self) -> None:
        """Wait until the client has read enough; returns at once if closed."""
        await self._socket.wait_writable()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Register a callback, called once when the WebSocket ends, by either side."""
        if self.closed:
            callback()
        else:
            self._on_close.append(callback)

    def close(self) -> None:
        """Close the WebSocket."""
        self._socket.close()

    def _end(self) -> None:
        self.closed = True
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()


def websocket_watch_response(
    headers: Mapping[str, str], run: Callable[[WebSocketSink], Coroutine[Any, Any, None]]
) -> Response:
    """Return the response that opens the WebSocket, or upstream's rejection of the handshake."""
    protocols = offered_protocols(headers)
    if rejection := _handshake_rejection(headers):
        return rejection
    if len(protocols) > 1:
        return Response(400, b"", "")
    return UpgradeResponse(WebSocketSink(run).take_over, handshake_headers(headers, protocols[0] if protocols else ""))


def websocket_log_response(headers: Mapping[str, str], pieces: AsyncGenerator[bytes, None]) -> Response:
    """Return the response that sends a log as messages, after an empty one: binary, or as text in base64."""
    protocols = offered_protocols(headers)
    protocol = choose_protocol(headers, (_BINARY_PROTOCOL, _BASE64_PROTOCOL))
    if rejection := _handshake_rejection(headers):
        return rejection
    if protocols and not protocol:
        return Response(403, b"", "")
    is_text = protocol == _BASE64_PROTOCOL

    async def run(sink: WebSocketSink) -> None:
        sink.write(encode_frame(TEXT if is_text else BINARY, b""))
        async with aclosing(pieces):
            async for piece in pieces:
                for at in range(0, len(piece), _LOG_MESSAGE_BYTES):
                    part = piece[at : at + _LOG_MESSAGE_BYTES]
                    sink.write(encode_frame(TEXT, b64encode(part)) if is_text else encode_frame(BINARY, part))
                    await sink.wait_drained()
                if sink.closed:
                    return

    return UpgradeResponse(WebSocketSink(run).take_over, handshake_headers(headers, protocol))


def _handshake_rejection(headers: Mapping[str, str]) -> Response | None:
    if headers.get("sec-websocket-version") != "13":
        return Response(400, b"missing or bad WebSocket Version", "", (("Sec-WebSocket-Version", "13"),))
    if not headers.get("sec-websocket-key"):
        return Response(400, b"mismatch challenge/response", "")
    if not _ORIGIN.match(headers.get("origin", "")):
        return Response(403, b"", "")
    return None
