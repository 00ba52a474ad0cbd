# SPDX-License-Identifier: Apache-2.0
"""Responses to exec and attach: upgrades to the client's protocol, and runs a session on it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.streaming.channels import BASE64, BINARY, V4, V4_BASE64, V5, Channels, negotiate_protocol
from kubeloop.apiserver.streaming.negotiation import spdy_headers, spdy_protocol
from kubeloop.apiserver.streaming.sessions import CommandSession, Run, StreamOptions, legacy_status_text
from kubeloop.http import Request, Response, UpgradeResponse
from kubeloop.http.byte_pipe import BytePipe, TransportCarrier
from kubeloop.http.upgrade.spdy import SpdyConnection, SpdyStream
from kubeloop.http.upgrade.spdy_frames import SpdyError
from kubeloop.http.upgrade.websocket import handshake_headers, wants_websocket

WEBSOCKET_PROTOCOLS = (V5, V4, V4_BASE64, BINARY, BASE64)
SPDY_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
_WITH_STATUS = (V5, V4, V4_BASE64)
_WITH_SIZE = ("v4.channel.k8s.io", "v3.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_PIECE = 32 << 10
_STREAMS_SECONDS = 30.0  # seconds within which a client has to open its streams


def command_response(request: Request, options: StreamOptions, run: Run, failure: str) -> Response:
    """Return the upgrade response, and run the command on it; errors are prefixed with `failure`."""
    headers = request.headers
    if not wants_websocket(headers):
        spoken = spdy_protocol(headers, SPDY_PROTOCOLS)
        return UpgradeResponse(_SpdyCommandSession(options, spoken, run, failure).take_over, spdy_headers(spoken))
    protocol = negotiate_protocol(headers, WEBSOCKET_PROTOCOLS)
    if protocol is None:
        raise errors.bad_request(f"unable to negotiate a subprotocol; supported are {', '.join(WEBSOCKET_PROTOCOLS)}")
    return UpgradeResponse(
        _WebSocketCommandSession(options, protocol, run, failure).take_over, handshake_headers(headers, protocol)
    )


class _WebSocketCommandSession(CommandSession):
    """Session over a WebSocket with channels."""

    def __init__(self, options: StreamOptions, protocol: str, run: Run, failure: str) -> None:
        super().__init__(options)
        self._protocol = protocol
        self._run_and_failure = run, failure
        self._channels = Channels(protocol, self._receive, self._closed, self.client_lost)
        self.input = BytePipe(self._channels.socket)

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        self._channels.socket.take_over(transport, early)
        self.begin(self._greet_and_run, self._run_and_failure[1])

    async def _greet_and_run(self, _: object) -> int | None:
        """Send an empty message on the first open channel, so that the client knows it is connected; then run."""
        options = self.options
        await self._channels.send(_STDOUT if options.stdout else _STDERR if options.stderr else _ERROR, b"")
        return await self._run_and_failure[0](self)

    def _receive(self, channel: int, data: bytes) -> None:
        if channel == _STDIN and self.input is not None:
            self.input.feed(data)
        elif channel == _RESIZE:
            self.resize(data)

    def _closed(self, channel: int) -> None:
        if channel == _STDIN and self.input is not None:
            self.input.end()

    async def send_output(self, data: bytes) -> None:
        await self._send(_STDOUT, data)

    async def send_error(self, data: bytes) -> None:
        await self._send(_STDERR, data)

    async def send_status(self, status: dict[str, Any]) -> None:
        said = msgspec.json.encode(status) if self._protocol in _WITH_STATUS else legacy_status_text(status)
        if said:
            await self._channels.send(_ERROR, said)
        self._channels.socket.close()

    async def _send(self, channel: int, data: bytes) -> None:
        for begin in range(0, len(data), _PIECE):
            await self._channels.send(channel, data[begin : begin + _PIECE])


class _SpdyCommandSession(CommandSession):
    """Session over SPDY; begins once the client has opened all requested streams."""

    def __init__(self, options: StreamOptions, protocol: str, run: Run, failure: str) -> None:
        super().__init__(options)
        self._protocol = protocol
        self._run_and_failure = run, failure
        self._wire = TransportCarrier(self._data, self._ended)
        self._connection = SpdyConnection(self._wire, self._opened)
        self._streams: dict[str, SpdyStream] = {}
        self._sizes: asyncio.Future[None] | None = None
        self._expected = {"error"} | {name for name in ("stdin", "stdout", "stderr") if getattr(options, name)}
        if options.tty and protocol in _WITH_SIZE:
            self._expected.add("resize")
        self._late: asyncio.TimerHandle | None = None

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        self._late = asyncio.get_running_loop().call_later(_STREAMS_SECONDS, self._connection.close)
        self._wire.take_over(transport, early)

    def _data(self, data: bytes) -> None:
        self._connection.feed(data)

    def _ended(self) -> None:
        self._connection.connection_lost()
        if self._late is not None:
            self._late.cancel()
        if self._sizes is not None:
            self._sizes.cancel()
        self.client_lost()

    def _opened(self, stream: SpdyStream) -> None:
        name = stream.headers.get("streamtype", "")
        if name not in self._expected or name in self._streams:
            raise SpdyError(f"unexpected stream type {name}")
        self._streams[name] = stream
        if len(self._streams) == len(self._expected):
            # Deferred: the client first gets the reply for its last stream.
            asyncio.get_running_loop().call_soon(self._all_opened)

    def _all_opened(self) -> None:
        if self._late is not None:
            self._late.cancel()
        if self._wire.closed:
            return
        if "stdin" in self._streams:
            self.input = self._streams["stdin"].input
        if "resize" in self._streams:
            self._sizes = asyncio.ensure_future(self._follow_sizes(self._streams["resize"]))
        self.begin(*self._run_and_failure)

    async def _follow_sizes(self, stream: SpdyStream) -> None:
        while data := await stream.read():
            self.resize(data)

    async def send_output(self, data: bytes) -> None:
        await self._streams["stdout"].write(data)

    async def send_error(self, data: bytes) -> None:
        await self._streams["stderr"].write(data)

    async def send_status(self, status: dict[str, Any]) -> None:
        said = msgspec.json.encode(status) if self._protocol == V4 else legacy_status_text(status)
        if said:
            await self._streams["error"].write(said)
        for stream in self._streams.values():
            stream.finish()
        self._connection.close()
