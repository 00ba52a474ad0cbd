# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 connection (RFC 9113) for gRPC calls: all calls made in one turn of the event loop share one write.

    call ─ HEADERS, DATA ─▶ gathered ─ one write a turn ─▶ socket
    future, stream ◀── by its number ◀── frames ◀── data_received

A general gRPC library costs more CPU time per call than everything else in a write to etcd. Frames are few
and simple, the headers of all requests are the same bytes, and so are those of nearly all responses.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from struct import error as StructError
from typing import cast

from kubeloop.grpc.frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    FRAME,
    GOAWAY,
    HAS_PRIORITY,
    HEADER_TABLE_SIZE,
    HEADERS,
    INITIAL_WINDOW,
    LARGEST_WINDOW,
    MAX_FRAME,
    MAX_STREAMS,
    PING,
    PREFACE,
    REFUSED_STREAM,
    RESET,
    SETTING,
    SETTINGS,
    WINDOW,
    without_padding,
)
from kubeloop.grpc.hpack import BadHeaders, read_block
from kubeloop.grpc.streams import (
    DEADLINE_EXCEEDED,
    INTERNAL,
    UNAUTHENTICATED,
    UNAVAILABLE,
    GrpcStream,
    RpcError,
    ServerStreamingResponse,
    StreamingResponse,
    UnaryResponse,
)

_REFILL = 2**30  # of what we let the server send: as good as never waited for
_QUIET_SECONDS, _PING_SECONDS = 10.0, 5.0  # etcd closes connections that ping more often
_LOOK_SECONDS = 2.5
_LONGEST_ATTEMPT = 3600.0


class Http2Connection(asyncio.Protocol):
    """Client side of a connection. `is_usable` until either side ends it; pending calls then fail.

    `attempt_seconds` limits the time of each `call`. A peer at a local socket needs no pings, and gRPC servers end
    connections that ping more often than every five minutes.
    """

    def __init__(self, attempt_seconds: float = _LONGEST_ATTEMPT, *, sends_pings: bool = True) -> None:
        self.is_usable = False
        self.reason = "the connection was closed"
        self._code = UNAVAILABLE
        self._attempt_seconds = attempt_seconds
        self._sends_pings = sends_pings
        self._streams: dict[int, GrpcStream] = {}
        self._next_id = 1
        self._most_streams = LARGEST_WINDOW
        self._later: deque[tuple[GrpcStream, bytes, bytes]] = deque()  # more than the server wants at a time
        self._waiting: list[tuple[GrpcStream, memoryview]] = []  # messages, or rests, that the windows have no room for
        self._window = self._stream_window = FIRST_WINDOW
        self._largest_frame = 16_384
        self._taken = 0
        self._out: list[bytes] = []
        self._rest = b""
        self._block: tuple[int, int, bytes] | None = None  # stream, flags and beginning of a divided header block
        self._deadlines: deque[tuple[float, GrpcStream]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._last_received = self._pinged = 0.0
        self._lost = asyncio.Event()

    # -- the socket ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self.is_usable = True
        self._last_received = self._loop.time()
        settings = ((HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW, LARGEST_WINDOW))
        self._out.append(PREFACE)
        self._send(SETTINGS, 0, 0, b"".join(SETTING.pack(*one) for one in settings))
        self._grant(0, LARGEST_WINDOW - FIRST_WINDOW)
        self._flush()
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._check_timeouts)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all streams with the reason."""
        if (why := rejection_reason(exc)) is not None:  # a rejection of our certificate arrives after the handshake
            self.reason, self._code = why, UNAUTHENTICATED
        elif exc is not None:
            self.reason = str(exc) or type(exc).__name__
        self._end()
        self._lost.set()

    def data_received(self, data: bytes) -> None:
        """Parse frames."""
        self._last_received = self._loop.time()
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        try:
            while end - at >= FRAME.size:
                high, low, kind, flags, number = FRAME.unpack_from(data, at)
                stop = at + FRAME.size + (high << 16 | low)
                if stop > end:
                    break
                self._frame(kind, flags, number & LARGEST_WINDOW, data[at + FRAME.size : stop])
                at = stop
        except (BadHeaders, ValueError, IndexError, StructError) as error:
            self.close(f"the server does not speak as it should: {error}")
            return
        self._rest = data[at:]

    def close(self, reason: str = "the connection was closed") -> None:
        """Abort the connection and fail all streams."""
        if self.is_usable:
            self.reason = reason
        self._transport.abort()  # abort: a TLS shutdown would wait for the peer's answer
        self._end()

    async def wait_closed(self) -> None:
        """Wait until the transport is closed."""
        await self._lost.wait()

    def _end(self) -> None:
        self.is_usable = False
        if self._timer is not None:
            self._timer.cancel()
        later = [stream for stream, _, _ in self._later]
        unsent = {*later, *(stream for stream, _ in self._waiting)}
        streams = [*self._streams.values(), *later]
        self._streams.clear()
        self._later.clear()
        self._waiting.clear()
        for stream in streams:
            stream.fail(RpcError(self._code, self.reason, is_not_executed=stream in unsent))

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, headers: bytes, message: bytes) -> asyncio.Future[bytes]:
        """Make a unary call. `headers` is the request's whole header block."""
        answer = UnaryResponse(self._loop)
        while self._deadlines and self._deadlines[0][1].is_done:
            self._deadlines.popleft()
        self._deadlines.append((self._loop.time() + self._attempt_seconds, answer))
        self._open(answer, headers, message)
        return answer.future

    async def call_until_cancelled(self, headers: bytes, message: bytes) -> bytes:
        """Make a unary call without a time limit of its own; a cancelled caller also cancels it at the server."""
        answer = UnaryResponse(self._loop)
        self._open(answer, headers, message)
        try:
            return await answer.future
        finally:
            if answer.future.cancelled():
                self._cancel(answer)

    def call_server_stream(self, headers: bytes, message: bytes) -> ServerStreamingResponse:
        """Make a server-streaming call: one request, responses until either side ends it."""
        messages = ServerStreamingResponse(self._loop, self._cancel)
        self._open(messages, headers, message)
        return messages

    def call_stream(self, headers: bytes, message: bytes) -> StreamingResponse:
        """Make a streaming call whose request stays open, until either side ends it."""
        messages = StreamingResponse(self._loop, self._cancel)
        self._open(messages, headers, message)
        return messages

    def _open(self, stream: GrpcStream, headers: bytes, message: bytes) -> None:
        if not self.is_usable:
            stream.fail(RpcError(self._code, self.reason, is_not_executed=True))
        elif len(self._streams) >= self._most_streams:
            self._later.append((stream, headers, message))
        else:
            self._begin(stream, headers, message)

    def _begin(self, stream: GrpcStream, headers: bytes, message: bytes) -> None:
        stream.number = self._next_id
        stream.window = self._stream_window
        self._streams[stream.number] = stream
        self._next_id += 2
        if self._next_id > LARGEST_WINDOW:
            self.is_usable = False  # for more there has to be a new one; these go on
            self.reason = "the connection has no numbers left"
        self._send(HEADERS, END_HEADERS, stream.number, headers)
        body = b"\0" + len(message).to_bytes(4, "big") + message
        size = len(body)
        if size <= self._largest_frame and size <= self._window and size <= stream.window and not self._waiting:
            self._window -= size
            stream.window -= size
            self._send(DATA, END_STREAM if stream.ends_after_one else 0, stream.number, body)
        else:
            self._waiting.append((stream, memoryview(body)))
            self._send_waiting()

    def _send_waiting(self) -> None:
        """Send as much as the windows allow, in order; a full stream window blocks no other stream."""
        left: list[tuple[GrpcStream, memoryview]] = []
        for stream, body in self._waiting:
            if stream.number not in self._streams:
                continue
            while body:
                size = min(len(body), self._largest_frame, self._window, stream.window)
                if size <= 0:
                    left.append((stream, body))
                    break
                self._window -= size
                stream.window -= size
                last = size == len(body) and stream.ends_after_one
                self._send(DATA, END_STREAM if last else 0, stream.number, bytes(body[:size]))
                body = body[size:]
        self._waiting = left

    def _cancel(self, stream: GrpcStream) -> None:
        if self._streams.pop(stream.number, None) is not None:
            self._send(RESET, 0, stream.number, CANCEL.to_bytes(4, "big"))
            self._begin_later()

    def _send(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        size = len(payload)
        self._out.append(FRAME.pack(size >> 16, size & 0xFFFF, kind, flags, number))
        self._out.append(payload)

    def _flush(self) -> None:
        if self._out:
            out, self._out = b"".join(self._out), []
            if not self._transport.is_closing():
                self._transport.write(out)

    def _grant(self, number: int, size: int) -> None:
        self._send(WINDOW, 0, number, size.to_bytes(4, "big"))

    # -- frames -------------------------------------------------------------------------------------------------------

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == DATA:
            self._replenish_windows(number, len(payload))
            stream = self._streams.get(number)
            if stream is not None:
                stream.on_data(without_padding(flags, payload))
                if flags & END_STREAM:
                    self._ended(number, stream, RpcError(INTERNAL, "the answer has no status"))
        elif kind == HEADERS:
            payload = without_padding(flags, payload)
            self._headers(number, flags, payload[5:] if flags & HAS_PRIORITY else payload)
        elif kind == CONTINUATION and self._block is not None:
            number, begun, block = self._block
            self._headers(number, begun | flags & END_HEADERS, block + payload)
        else:
            self._control(kind, flags, number, payload)

    def _headers(self, number: int, flags: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            self._block = number, flags, block
            return
        self._block = None
        headers = read_block(block)
        stream = self._streams.get(number)
        if stream is not None and flags & END_STREAM:
            self._ended(number, stream, stream.error_of(headers))
        elif stream is not None:
            stream.begin(headers)

    def _ended(self, number: int, stream: GrpcStream, error: RpcError | None) -> None:
        del self._streams[number]
        if error is None:
            stream.finish()
        else:
            stream.fail(error)
        self._begin_later()

    def _begin_later(self) -> None:
        while self._later and len(self._streams) < self._most_streams and self.is_usable:
            stream, headers, message = self._later.popleft()
            if not stream.is_done:  # the caller may have timed out and retried elsewhere
                self._begin(stream, headers, message)
        if not self._streams and not self.is_usable:
            self.close()

    def _control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == WINDOW:
            self._widen(number, int.from_bytes(payload, "big") & LARGEST_WINDOW)
        elif kind == PING and not flags & ACK:
            self._send(PING, ACK, 0, payload)
        elif kind == SETTINGS and not flags & ACK:
            self._settle(payload)
            self._send(SETTINGS, ACK, 0, b"")
        elif kind == RESET and (stream := self._streams.get(number)) is not None:
            code = int.from_bytes(payload, "big")
            why = f"the server has ended the call ({code})"
            self._ended(number, stream, RpcError(UNAVAILABLE, why, is_not_executed=code == REFUSED_STREAM))
        elif kind == GOAWAY:
            self._go_away(int.from_bytes(payload[:4], "big") & LARGEST_WINDOW, payload[8:])

    def _widen(self, number: int, size: int) -> None:
        if number == 0:
            self._window += size
        elif (stream := self._streams.get(number)) is not None:
            stream.window += size
        if self._waiting:
            self._send_waiting()

    def _settle(self, payload: bytes) -> None:
        for name, value in SETTING.iter_unpack(payload):
            if name == MAX_STREAMS:
                self._most_streams = value
            elif name == MAX_FRAME:
                self._largest_frame = value
            elif name == INITIAL_WINDOW:
                for stream in self._streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
        self._begin_later()
        self._send_waiting()

    def _go_away(self, last: int, why: bytes) -> None:
        """Handle GOAWAY: fail the streams that the server has not begun."""
        self.is_usable = False
        self.reason = f"the server goes away: {why.decode(errors='replace')}" if why else "the server goes away"
        refused = [self._streams.pop(number) for number in sorted(self._streams) if number > last]
        refused += (stream for stream, _, _ in self._later)
        self._later.clear()
        for stream in refused:
            stream.fail(RpcError(UNAVAILABLE, self.reason, is_not_executed=True))
        self._begin_later()

    def _replenish_windows(self, number: int, size: int) -> None:
        """Enlarge the receive windows well before they are exhausted."""
        self._taken += size
        if self._taken > _REFILL:
            self._grant(0, self._taken)
            self._taken = 0
        stream = self._streams.get(number)
        if stream is not None:
            stream.taken += size
            if stream.taken > _REFILL:
                self._grant(number, stream.taken)
                stream.taken = 0

    # -- time ---------------------------------------------------------------------------------------------------------

    def _check_timeouts(self) -> None:
        """Check deadlines and the connection's liveness; called periodically."""
        now = self._loop.time()
        late: list[GrpcStream] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            late.append(self._deadlines.popleft()[1])
        for stream in late:
            stream.fail(RpcError(DEADLINE_EXCEEDED, "no answer in time", is_not_executed=stream.number == 0))
        for stream in late:  # now that none of them takes another's place
            self._cancel(stream)
        expects_pongs = self._sends_pings and bool(self._streams)
        if expects_pongs and now - self._last_received > _QUIET_SECONDS + _PING_SECONDS:
            self.close("the server is silent")
            return
        if expects_pongs and now - max(self._last_received, self._pinged) > _QUIET_SECONDS:
            self._pinged = now
            self._send(PING, 0, 0, b"kubeloop")
        next_deadline = self._deadlines[0][0] - now if self._deadlines else _LOOK_SECONDS
        self._timer = self._loop.call_later(min(max(next_deadline, 0.01), _LOOK_SECONDS), self._check_timeouts)


def rejection_reason(error: Exception | None) -> str | None:
    """Return why a certificate was rejected; None for other errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verification failed: {error.verify_message}"
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason and ("CERT" in reason or "CA" in reason):
        return f"the client certificate was rejected: {reason.lower().replace('_', ' ')}"
    return None
