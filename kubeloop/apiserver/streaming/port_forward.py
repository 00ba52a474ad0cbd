# SPDX-License-Identifier: Apache-2.0
"""Responses to portforward: connections to ports of a pod, each a pair of streams or channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import NodeForwardFailed, PortConnection
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.streaming.channels import BASE64, BINARY, V4, V4_BASE64, Channels, negotiate_protocol
from kubeloop.apiserver.streaming.negotiation import SPDY, spdy_headers, spdy_protocol
from kubeloop.http import Request, Response, UpgradeResponse
from kubeloop.http.byte_pipe import BytePipe, Carrier, TransportCarrier
from kubeloop.http.upgrade.spdy import SpdyConnection, SpdyStream
from kubeloop.http.upgrade.spdy_frames import SpdyError
from kubeloop.http.upgrade.websocket import WebSocket, handshake_headers, offered_protocols, wants_websocket

PROTOCOL = "portforward.k8s.io"
TUNNELLED = f"{SPDY}+{PROTOCOL}"
_CHANNELLED = (V4, V4_BASE64, BINARY, BASE64)
_PIECE = 32 << 10
_LAST_PORT = 1 << 16
_PAIR_SECONDS = 30.0  # seconds within which the second stream of a pair has to follow the first


class PortForwarder(NamedTuple):
    """Access to the ports of a pod."""

    connect: Callable[[int, PortConnection], Awaitable[None]]
    pod: str  # names in error messages
    uid: str
    close: Callable[[], None] = lambda: None  # called when the client has ended

    def error_message(self, port: int, error: Exception) -> bytes:
        """Return the error message for the client; a node's message is passed on unchanged."""
        if isinstance(error, NodeForwardFailed):
            return str(error).encode()
        return f"error forwarding port {port} to pod {self.pod}, uid {self.uid}: {error}".encode()


def forward_response(request: Request, forwarding: PortForwarder) -> Response:
    """Return the upgrade response, and serve the forwarded connections on it."""
    headers = request.headers
    if not wants_websocket(headers):
        protocol = spdy_protocol(headers, (PROTOCOL,))
        return UpgradeResponse(_over_wire(forwarding), spdy_headers(protocol))
    if TUNNELLED in offered_protocols(headers):
        return UpgradeResponse(_over_websocket(forwarding), handshake_headers(headers, TUNNELLED))
    ports = ports_of(Query(request.query))
    chosen = negotiate_protocol(headers, _CHANNELLED)
    if chosen is None:
        raise errors.bad_request(f"unable to negotiate a subprotocol; supported are {', '.join(_CHANNELLED)}")
    session = _ChannelForwardSession(forwarding, chosen, ports)
    return UpgradeResponse(session.take_over, handshake_headers(headers, chosen))


def ports_of(query: Query) -> list[int]:
    """Return the ports of a request: `ports` at the API server, `port` at a node."""
    texts = query.all_values("ports") or query.all_values("port")
    if not texts:
        raise errors.bad_request('query parameter "port" is required')
    ports = []
    for text in texts:
        for one in text.split(","):
            if not (one.isascii() and one.isdigit() and int(one) < _LAST_PORT):
                raise errors.bad_request(f'unable to parse "{text}" as a port')
            if int(one) < 1:
                raise errors.bad_request(f'port "{text}" must be > 0')
            ports.append(int(one))
    return ports


TakeOver = Callable[[asyncio.Transport, bytes], None]


def _over_wire(forwarding: PortForwarder) -> TakeOver:
    def take_over(transport: asyncio.Transport, early: bytes) -> None:
        wire = TransportCarrier(lambda data: session.connection.feed(data), lambda: session.end())
        session = _SpdyForwardSession(forwarding, wire)
        wire.take_over(transport, early)

    return take_over


def _over_websocket(forwarding: PortForwarder) -> TakeOver:
    def take_over(transport: asyncio.Transport, early: bytes) -> None:
        socket = WebSocket(lambda data: session.connection.feed(data), lambda: session.end())
        session = _SpdyForwardSession(forwarding, socket)
        socket.take_over(transport, early)

    return take_over


class _RunningConnections:
    """Running connections; all are cancelled with the client."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[None]] = set()

    def begin(self, call: Awaitable[None]) -> None:
        running = asyncio.ensure_future(call)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def cancel(self) -> None:
        for one in self._running:
            one.cancel()


class _SpdyForwardSession:
    """SPDY session: each connection has two streams with the same request ID, for data and errors."""

    def __init__(self, forwarding: PortForwarder, carrier: Carrier) -> None:
        self._forwarding = forwarding
        self.connection = SpdyConnection(carrier, self._opened)
        self._calls = _RunningConnections()
        self._halves: dict[str, tuple[SpdyStream, asyncio.TimerHandle]] = {}

    def end(self) -> None:
        self.connection.connection_lost()
        for _, late in self._halves.values():
            late.cancel()
        self._calls.cancel()
        self._forwarding.close()

    def _opened(self, stream: SpdyStream) -> None:
        kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
        if kind not in ("data", "error") or not (port.isascii() and port.isdigit() and 0 < int(port) < _LAST_PORT):
            raise SpdyError("a stream must have the headers streamType and port")
        # Clients without request IDs open the error stream first, and the data stream right after it.
        request = stream.headers.get("requestid") or str(stream.number - (2 if kind == "data" else 0))
        other, late = self._halves.pop(request, (None, None))
        if other is None or late is None:
            loop = asyncio.get_running_loop()
            self._halves[request] = stream, loop.call_later(_PAIR_SECONDS, self._give_up, request)
            return
        late.cancel()
        if other.headers.get("streamtype") == kind:
            raise SpdyError(f"{kind} stream already assigned")
        data, error = (stream, other) if kind == "data" else (other, stream)
        self._calls.begin(self._serve(int(data.headers["port"]), data, error))

    def _give_up(self, request: str) -> None:
        stream, _ = self._halves.pop(request)
        stream.reset()

    async def _serve(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        try:
            await self._forwarding.connect(port, data)
        except Exception as failure:  # reported to the client
            await error.write(self._forwarding.error_message(port, failure))
            error.finish()
            data.reset()
            error.reset()
        else:
            data.finish()
            error.finish()


class _ChannelForwardSession:
    """Channel session: two channels per port, for data and errors; each begins with the port number."""

    def __init__(self, forwarding: PortForwarder, protocol: str, ports: list[int]) -> None:
        self._forwarding = forwarding
        self._ports = ports
        self._channels = Channels(protocol, self._receive, lambda _: None, self._end)
        self._pipes = [BytePipe(self._channels.socket) for _ in ports]
        self._calls = _RunningConnections()

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        self._channels.socket.take_over(transport, early)
        self._calls.begin(self._serve_all())

    def _receive(self, channel: int, data: bytes) -> None:
        number, is_error = divmod(channel, 2)
        if not is_error and number < len(self._pipes):
            self._pipes[number].feed(data)

    def _end(self) -> None:
        for pipe in self._pipes:
            pipe.end()
        self._calls.cancel()
        self._forwarding.close()

    async def _serve_all(self) -> None:
        for number, port in enumerate(self._ports):
            for channel in (2 * number, 2 * number + 1):
                await self._channels.send(channel, port.to_bytes(2, "little"))
        await asyncio.gather(*(self._serve(number, port) for number, port in enumerate(self._ports)))
        self._channels.socket.close()

    async def _serve(self, number: int, port: int) -> None:
        try:
            await self._forwarding.connect(port, _ChannelDuplex(self._channels, 2 * number, self._pipes[number]))
        except Exception as failure:  # reported to the client
            await self._channels.send(2 * number + 1, self._forwarding.error_message(port, failure))


class _ChannelDuplex:
    """Channel as a duplex connection."""

    def __init__(self, channels: Channels, number: int, pipe: BytePipe) -> None:
        self._channels = channels
        self._number = number
        self._pipe = pipe

    async def read(self) -> bytes:
        return await self._pipe.read()

    async def write(self, data: bytes) -> None:
        for begin in range(0, len(data), _PIECE):
            await self._channels.send(self._number, data[begin : begin + _PIECE])
