# SPDX-License-Identifier: Apache-2.0
"""Server side of an HTTP/2 connection with gRPC calls: a task for each call.

A violation of the protocol ends the connection with GOAWAY. What a client may make us store is limited: the streams,
the headers of a request, a message, and all requests together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import cast

from kubeloop.grpc import frames
from kubeloop.grpc.frames import Http2Error
from kubeloop.grpc.hpack import BadHeaders
from kubeloop.grpc.server.call import ServerCall
from kubeloop.grpc.server.frame_reader import Http2Frame, ServerFrameReader
from kubeloop.grpc.server.frame_writer import ServerFrameWriter
from kubeloop.grpc.server.header_decoder import HeaderDecoder
from kubeloop.grpc.server.limits import GrpcServerLimits
from kubeloop.grpc.server.methods import (
    RESPONSE_HEADERS,
    GrpcMethods,
    RejectedRequest,
    select_method,
    timeout_of,
    trailers_of,
)
from kubeloop.grpc.streams import DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNKNOWN, RpcError

_WINDOW_BYTES = 1 << 20  # that a client may send before we have read it; more as we read
_PAYLOAD_BYTES = {frames.PRIORITY: 5, frames.RESET: 4, frames.PING: 8, frames.WINDOW: 4}

log = logging.getLogger(__name__)


class ServerConnection(asyncio.Protocol):
    """One connection. `on_lost` is called when it has ended and no call is left."""

    def __init__(
        self, methods: GrpcMethods, limits: GrpcServerLimits, on_lost: Callable[[ServerConnection], None]
    ) -> None:
        self._methods = methods
        self._limits = limits
        self._on_lost = on_lost
        self._reader = ServerFrameReader(limits.header_bytes)
        self._headers = HeaderDecoder()
        self._calls: dict[int, ServerCall] = {}
        self._last = 0  # number of the newest stream
        self._receive_window = frames.FIRST_WINDOW
        self._is_ending = self._is_lost = False

    # -- the socket ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the settings."""
        self._transport = cast(asyncio.Transport, transport)
        self._writer = ServerFrameWriter(self._transport)
        self._loop = asyncio.get_running_loop()
        settings = (
            (frames.MAX_STREAMS, self._limits.streams),
            (frames.INITIAL_WINDOW, _WINDOW_BYTES),
            (frames.MAX_HEADER_LIST, self._limits.header_bytes),
        )
        self._writer.send(frames.SETTINGS, 0, 0, b"".join(frames.SETTING.pack(*one) for one in settings))
        self._receive_window += self._grant(0, self._receive_window)
        self._handshake = self._loop.call_later(self._limits.handshake_seconds, self._check_handshake)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all calls."""
        self._handshake.cancel()
        self._is_ending = self._is_lost = True
        for call in list(self._calls.values()):
            self._cancel(call)
        self._finish_if_idle()

    def data_received(self, data: bytes) -> None:
        """Process frames; a malformed one ends the connection."""
        try:
            for frame in self._reader.feed(data):
                self._frame(frame)
        except Http2Error as error:
            self._fail(error.code, str(error))
        except BadHeaders as error:
            self._fail(frames.COMPRESSION_ERROR, str(error))

    def pause_writing(self) -> None:
        """Neither send nor read: answers to frames have no room either."""
        self._writer.pause()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._writer.resume()
        self._transport.resume_reading()

    def drain(self) -> None:
        """Accept no more calls, and close the connection after the last one."""
        if not self._is_ending:
            self._is_ending = True
            self._go_away(frames.NO_ERROR, "")
            self._finish_if_idle()

    def abort(self) -> None:
        """Close the connection now."""
        self._transport.abort()

    def _fail(self, code: int, why: str) -> None:
        log.debug("gRPC connection ends: %s", why)
        self._go_away(code, why)
        self._is_ending = True
        for call in list(self._calls.values()):
            self._cancel(call)
        self._transport.close()

    def _go_away(self, code: int, why: str) -> None:
        payload = self._last.to_bytes(4, "big") + code.to_bytes(4, "big") + why.encode()
        self._writer.send(frames.GOAWAY, 0, 0, payload)
        self._writer.flush()

    def _check_handshake(self) -> None:
        if not self._reader.has_settings:
            self._transport.abort()

    def _finish_if_idle(self) -> None:
        if self._is_ending and not self._calls:
            self._writer.flush()
            self._transport.close()
            if self._is_lost:
                self._on_lost(self)

    # -- frames -------------------------------------------------------------------------------------------------------

    def _frame(self, frame: Http2Frame) -> None:
        kind, flags, number, payload = frame
        if len(payload) != _PAYLOAD_BYTES.get(kind, len(payload)):
            raise Http2Error(frames.FRAME_SIZE_ERROR, "a frame has a wrong size")
        if kind in (frames.SETTINGS, frames.PING, frames.GOAWAY) and number:
            raise Http2Error(frames.PROTOCOL_ERROR, "a frame of the connection has a stream")
        if kind in (frames.DATA, frames.RESET) and not 0 < number <= self._last:
            raise Http2Error(frames.PROTOCOL_ERROR, "a frame belongs to a stream that does not exist")
        if kind == frames.DATA:
            self._on_data(flags, number, payload)
        elif kind == frames.HEADERS:
            self._on_headers(flags, number, payload)
        elif kind == frames.RESET and (call := self._calls.get(number)) is not None:
            self._cancel(call)
        elif kind == frames.WINDOW:
            self._on_window(number, int.from_bytes(payload, "big") & frames.LARGEST_WINDOW)
        elif kind == frames.PUSH:
            raise Http2Error(frames.PROTOCOL_ERROR, "a client has sent PUSH_PROMISE")
        else:
            self._on_connection_frame(kind, flags, payload)

    def _on_connection_frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == frames.SETTINGS and not flags & frames.ACK:
            self._writer.apply_settings(payload, self._calls.values())
            self._writer.send(frames.SETTINGS, frames.ACK, 0, b"")
        elif kind == frames.SETTINGS and payload:
            raise Http2Error(frames.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has settings")
        elif kind == frames.PING and not flags & frames.ACK:
            self._writer.send(frames.PING, frames.ACK, 0, payload)

    def _on_window(self, number: int, size: int) -> None:
        if number > self._last:
            raise Http2Error(frames.PROTOCOL_ERROR, "a window belongs to a stream that does not exist")
        if not size:
            raise Http2Error(frames.PROTOCOL_ERROR, "a window is widened by nothing")
        if not number:
            self._writer.widen(None, size)
        elif (call := self._calls.get(number)) is not None:
            self._writer.widen(call, size)

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        self._receive_window -= len(payload)
        call = self._calls.get(number)
        if call is not None:
            call.receive_window -= len(payload)
        if self._receive_window < 0 or (call is not None and call.receive_window < 0):
            raise Http2Error(frames.FLOW_CONTROL_ERROR, "a client has sent more than its window")
        self._receive_window += self._grant(0, self._receive_window)
        if call is None:
            return
        if call.has_request_ended:
            raise Http2Error(frames.STREAM_CLOSED, "a client has sent data after the end of its request")
        call.on_data(frames.without_padding(flags, payload))
        if sum(one.buffered for one in self._calls.values()) > self._limits.buffered_bytes:
            call.reject(RpcError(RESOURCE_EXHAUSTED, "grpc: the requests of the connection are too large"))
        if flags & frames.END_STREAM:
            call.on_end()
        else:
            call.receive_window += self._grant(number, call.receive_window)

    def _grant(self, number: int, window: int) -> int:
        """Widen a window of the client if half of it is used; returns by how much."""
        if window > _WINDOW_BYTES // 2:
            return 0
        size = _WINDOW_BYTES - window
        self._writer.send(frames.WINDOW, 0, number, size.to_bytes(4, "big"))
        return size

    # -- calls --------------------------------------------------------------------------------------------------------

    def _on_headers(self, flags: int, number: int, block: bytes) -> None:
        headers = self._headers.decode(block)
        ends = bool(flags & frames.END_STREAM)
        if (call := self._calls.get(number)) is not None:
            if not ends or call.has_request_ended:
                raise Http2Error(frames.PROTOCOL_ERROR, "a client has sent headers twice")
            call.on_end()
        elif not number % 2:
            raise Http2Error(frames.PROTOCOL_ERROR, "a client has opened a stream with a wrong number")
        elif number > self._last:
            self._last = number
            if self._is_ending:
                return  # GOAWAY has told the client that this stream is not processed
            if len(self._calls) >= self._limits.streams:
                self._writer.send(frames.RESET, 0, number, frames.REFUSED_STREAM.to_bytes(4, "big"))
            else:
                self._begin(number, headers, ends=ends)

    def _begin(self, number: int, headers: dict[str, str], *, ends: bool) -> None:
        try:
            if self._headers.size > self._limits.header_bytes:
                raise RejectedRequest(431, RpcError(RESOURCE_EXHAUSTED, "the headers are too large"))
            method, seconds = select_method(self._methods, headers), timeout_of(headers)
        except RejectedRequest as rejected:
            self._send_trailers(number, trailers_of(rejected.error, rejected.http_status), is_half_closed=ends)
            return
        deadline = None if seconds is None else self._loop.time() + seconds
        call = ServerCall(number, method, deadline, self._limits.message_bytes)
        call.receive_window = _WINDOW_BYTES
        self._writer.open_window(call)
        self._calls[number] = call
        if ends:
            call.on_end()
        call.task = self._loop.create_task(self._serve(call))
        call.task.add_done_callback(lambda _: self._forget(call))

    async def _serve(self, call: ServerCall) -> None:
        error = await self._respond(call)
        if not call.is_reset:
            trailers = trailers_of(error, None if call.has_headers else 200)
            self._send_trailers(call.number, trailers, is_half_closed=call.has_request_ended)

    def _forget(self, call: ServerCall) -> None:
        del self._calls[call.number]
        self._finish_if_idle()

    async def _respond(self, call: ServerCall) -> RpcError | None:
        """Send the responses of a call; returns the error that ends it."""
        try:
            async with asyncio.timeout_at(call.deadline) as limit:
                async with aclosing(call.method(await call.request)) as responses:
                    async for response in responses:
                        if not call.has_headers:
                            call.has_headers = True
                            self._writer.send(frames.HEADERS, frames.END_HEADERS, call.number, RESPONSE_HEADERS)
                        await self._writer.send_message(call, response)
        except RpcError as error:
            return error
        except Exception as error:  # a defect of a method ends its call, and nothing else
            if isinstance(error, TimeoutError) and limit.expired():
                return RpcError(DEADLINE_EXCEEDED, "context deadline exceeded")
            log.exception("gRPC method failed")
            return RpcError(UNKNOWN, str(error) or type(error).__name__)
        return None

    def _send_trailers(self, number: int, trailers: bytes, *, is_half_closed: bool) -> None:
        self._writer.send(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, number, trailers)
        if not is_half_closed:  # the rest of the request is of no use
            self._writer.send(frames.RESET, 0, number, frames.NO_ERROR.to_bytes(4, "big"))

    def _cancel(self, call: ServerCall) -> None:
        call.is_reset = True
        if call.task is not None:
            call.task.cancel()
