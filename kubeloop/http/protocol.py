# SPDX-License-Identifier: Apache-2.0
"""Server side of one connection: requests in, responses out, in order, with limits of size and time."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections import deque
from collections.abc import Awaitable
from typing import Any, cast

from kubeloop.http.compression import GZIP_HEADERS, accepts_gzip, gzip
from kubeloop.http.connections import ServerState
from kubeloop.http.messages import (
    READ_ONLY_METHODS,
    NoResponse,
    Request,
    Response,
    StreamResponse,
    TruncatedRequest,
    UpgradeResponse,
)
from kubeloop.http.request_reader import ReadStage, RequestReader, RequestRejection
from kubeloop.http.response_head import CONTINUE, NO_BODY_STATUSES, connection_field
from kubeloop.http.stream import ResponseStream
from kubeloop.http.upgrade.close_notifier import notify_on_close
from kubeloop.http.write_buffer import SLICE, WriteBuffer

_JOIN_BELOW = 64 << 10  # up to about this size, copying a body behind its head is cheaper than a second write
_MAX_EARLY_BYTES = 64 << 10


class HttpServerConnection(asyncio.Protocol):
    """Server side of one client connection.

    At most one request is being handled (`_request`); complete ones received after it are in `_waiting`; a ready
    response among them is a rejection, always the last. Once `_ending` is set, nothing is added to the outbox any more.
    Before `connection_made`, while TLS shakes hands, nothing refers back to the connection: if the handshake fails, the
    transport drops it, and it is finalized at once (with asyncio's own loop, when its exception is collected).
    """

    __slots__ = (
        "_certificate",
        "_continue_due",
        "_ending",
        "_held_back",
        "_intermediates",
        "_is_made",
        "_linger_until",
        "_lost",
        "_reader",
        "_remote",
        "_request",
        "_started_at",
        "_state",
        "_stream",
        "_task",
        "_transport",
        "_waiting",
        "_write_buffer",
    )

    def __init__(self, service: ServerState) -> None:
        self._state = service
        self._is_made = False
        self._waiting: deque[Request | Response] = deque()
        self._request: Request | None = None
        self._started_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._stream: ResponseStream | None = None
        self._linger_until: float | None = None
        self._continue_due = False
        self._held_back = False
        self._ending = False
        self._lost = False

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up reader, write buffer and peer information; reject the connection if there are too many."""
        self._is_made = True
        state = self._state
        self._reader = RequestReader(state.limits, state.loop, self._on_request, self._on_expect_continue)
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._transport.set_write_buffer_limits(high=SLICE)
        self._write_buffer = WriteBuffer(self._transport, self._state.cork, self._on_room)
        ssl_object = transport.get_extra_info("ssl_object")
        self._certificate: bytes | None = ssl_object.getpeercert(True) if ssl_object is not None else None
        self._intermediates = _intermediates_of(ssl_object) if self._certificate is not None else ()
        peer = transport.get_extra_info("peername") or ("", 0)
        self._remote: tuple[str, int] = (peer[0], peer[1])
        connections = self._state.connections
        connections.add(self)
        if len(connections) > self._state.limits.connections:
            self._reject(RequestRejection(503, "too many connections"))

    def __del__(self) -> None:
        """Report a TLS handshake that failed: the client's fault, or it left, or was too slow."""
        if not self._is_made and not self._state.closing:
            self._state.hooks.on_handshake_error()

    def data_received(self, data: bytes) -> None:
        """Feed the request reader; reject invalid input."""
        reader = self._reader
        if reader.finished:
            self._buffer_after_upgrade(data)
            return
        rejection = reader.feed(data)
        if rejection is not None:
            self._reject(rejection)
        self._write_buffer.flush()

    def pause_writing(self) -> None:
        """Pause the write buffer."""
        self._write_buffer.pause()

    def resume_writing(self) -> None:
        """Resume the write buffer."""
        self._write_buffer.resume()

    def connection_lost(self, _error: Exception | None) -> None:
        """Drop queued requests and data, end the stream, and cancel the handler if that is safe."""
        self._lost = True
        self._state.connections.discard(self)
        self._waiting.clear()
        self._reader.close()
        self._write_buffer.close()
        if self._stream is not None:
            self._stream.connection_lost()
        if self._task is not None and self._is_cancellable():
            self._task.cancel()
        self._stream = None
        self._state.activity.set()

    def _is_cancellable(self) -> bool:
        return self._stream is not None or (self._request is not None and self._request.method in READ_ONLY_METHODS)

    # From complete requests to their handlers.

    def _on_request(self, request: Request) -> None:
        request.peer_certificate = self._certificate
        request.peer_intermediates = self._intermediates
        request.remote = self._remote
        if self._request is None and not self._waiting and not self._write_buffer.is_congested:
            self._start(request)
            return
        if len(self._waiting) >= self._state.limits.pipelined:
            raise RequestRejection(429, "too many pipelined requests")
        self._waiting.append(request)
        if not self._held_back:
            self._held_back = True
            self._transport.pause_reading()
            self._write_buffer.wants_room = True

    def _start(self, request: Request) -> None:
        """Start the handler; most reads finish here, in the first step of its task."""
        self._request = request
        self._started_at = self._state.loop.time()
        task = self._state.starter.start(self._handle(request))
        if task is not None:
            self._state.track(task)
            self._task = task

    async def _handle(self, request: Request) -> None:
        try:
            response = await self._state.handler(request)
        except (Exception, CancelledError) as error:
            if self._lost or self._request is not request:  # its time was over
                return
            response = self._error_response(request, error)
        if self._request is not request:
            return
        has_waited = self._task is not None
        self._task = None
        if not self._lost:
            self._respond(request, response)
            if has_waited:
                self._start_next()

    def _start_next(self) -> None:
        """Continue with the requests queued behind the response just sent."""
        waiting = self._waiting
        while waiting and self._request is None and not self._ending and not self._write_buffer.is_congested:
            following = waiting.popleft()
            if isinstance(following, Request):
                self._start(following)
            else:
                self._answer_rejection(following)
        if waiting:
            self._write_buffer.wants_room = True
        elif self._held_back:
            self._held_back = False
            self._transport.resume_reading()
        if self._continue_due and self._request is None and not self._ending:
            self._on_expect_continue()
        self._write_buffer.flush()

    def _on_room(self) -> None:
        if self._lost:
            return
        if self._stream is not None:
            self._stream.wake_writer()
        if self._ending:
            self._end()
        elif self._waiting or self._continue_due:
            self._start_next()

    def _on_expect_continue(self) -> None:
        """Send 100 Continue, once all earlier requests are answered."""
        self._continue_due = self._request is not None or bool(self._waiting)
        if not self._continue_due:
            self._write_buffer.put(CONTINUE)

    # From handlers' responses to bytes.

    def _respond(self, request: Request, response: Response) -> None:
        try:
            if type(response) is Response:
                self._write_response(request, response)
            elif isinstance(response, StreamResponse):
                self._open_stream(request, response)
            elif isinstance(response, UpgradeResponse):
                self._upgrade(request, response)
            elif isinstance(response, NoResponse):
                self._transport.abort()
            else:
                self._write_response(request, response)
        except Exception as error:
            # The response itself is broken and may be half written: only the owner can be informed.
            self._error_response(request, error)
            self._transport.abort()

    def _write_response(self, request: Request, response: Response) -> None:
        body = response.body
        whole = isinstance(body, bytes)
        length = len(body) if whole else sum(map(len, body))  # type: ignore[arg-type]  # otherwise a sequence of bytes
        if length > self._state.limits.gzip_above and self._wants_gzip(request, response):
            self._task = self._state.spawn(self._compress(request, response))
            return
        keep_alive = request.keep_alive and not request.upgrade and not self._state.closing
        connection = b"" if keep_alive and not request.http_1_0 else connection_field(keep_alive, request.http_1_0)
        head = self._state.heads.sized(response, length, connection)
        outbox = self._write_buffer
        if request.method == "HEAD" or response.status in NO_BODY_STATUSES:
            outbox.put(head)
        elif isinstance(body, bytes) and length < _JOIN_BELOW:
            outbox.put(head + body)
        else:
            outbox.put(head)
            outbox.put_all((body,) if isinstance(body, bytes) else body, length)
        self._finish(keep_alive)

    def _wants_gzip(self, request: Request, response: Response) -> bool:
        if "json" not in response.content_type or any(name == "Content-Encoding" for name, _ in response.headers):
            return False
        return accepts_gzip(request.headers.get("accept-encoding", ""))

    async def _compress(self, request: Request, response: Response) -> None:
        body = response.body
        parts = (body,) if isinstance(body, bytes) else body
        packed = await self._state.loop.run_in_executor(None, gzip, parts)
        if self._request is not request:  # its time was over
            return
        self._task = None
        if not self._lost:
            headers = response.headers + GZIP_HEADERS
            self._write_response(request, Response(response.status, packed, response.content_type, headers))
            self._start_next()

    def _open_stream(self, request: Request, response: StreamResponse) -> None:
        if request.http_1_0:
            self._write_response(request, self._reject_response(RequestRejection(505, "a stream needs HTTP/1.1")))
            return
        self._write_buffer.put(self._state.heads.chunked(response, connection_field(request.keep_alive, False)))
        if request.method == "HEAD":
            self._finish(request.keep_alive)
            return
        budget = self._state.limits.stream_bytes
        stream = self._stream = ResponseStream(self._write_buffer, budget, self._stream_ended, self._stream_overflowed)
        running = response.run(stream)
        if running is not None:
            self._task = self._state.spawn(self._run_stream(request, stream, running))
        self._write_buffer.flush()

    async def _run_stream(self, request: Request, stream: ResponseStream, running: Awaitable[None]) -> None:
        try:
            await running
        except (Exception, CancelledError) as error:
            if not self._lost and not stream.closed:  # ending a stream cancels its task
                self._error_response(request, error)
                self._transport.abort()
        stream.close()

    def _stream_ended(self) -> None:
        request = self._request
        assert request is not None, "a stream belongs to the current request"
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = self._stream = None
        self._finish(request.keep_alive and not self._state.closing)
        if self._waiting or self._continue_due:
            self._state.loop.call_soon(self._on_room)

    def _stream_overflowed(self) -> None:
        """Cut off a client that reads slower than events occur; it will list and watch again."""
        assert self._request is not None, "only an open stream can overflow"
        assert self._stream is not None, "only an open stream can overflow"
        self._stream.connection_lost()
        self._write_buffer.discard()
        self._transport.abort()
        self._state.hooks.on_overflow(self._request)

    def _upgrade(self, request: Request, response: UpgradeResponse) -> None:
        if not request.upgrade:
            raise RuntimeError("only an upgrade request's connection can be taken over")
        service = self._state
        self._transport.write(service.heads.sized(response, 0, b""))
        service.connections.discard(self)
        service.upgraded.add(self._transport)
        self._transport.resume_reading()
        response.take_over(self._transport, self._reader.leftover)
        if response.on_close is not None:
            notify_on_close(self._transport, response.on_close)

    def _buffer_after_upgrade(self, data: bytes) -> None:
        """Keep data that a client sends before its upgrade is answered; drop any other."""
        if self._request is not None and self._request.upgrade:
            self._reader.leftover += data
            if len(self._reader.leftover) > _MAX_EARLY_BYTES:
                self._transport.pause_reading()

    # Rejections, failures, and the end.

    def _error_response(self, request: Request, error: BaseException) -> Response:
        try:
            return self._state.hooks.on_error(request, error)
        except Exception:
            return Response(500, b"", "")

    def _reject_response(self, rejection: RequestRejection) -> Response:
        try:
            return self._state.hooks.reject(rejection.status, rejection.message)
        except Exception:
            return Response(rejection.status, b"", "")

    def _reject(self, rejection: RequestRejection) -> None:
        """Reject invalid input after all earlier responses, and close."""
        self._reader.finished = True
        request, state = rejection.request, self._state
        if request is not None and state.hooks.handles_large_bodies and len(self._waiting) < state.limits.pipelined:
            self._on_request(request)
            return
        response = self._reject_response(rejection)
        if self._request is None and not self._waiting:
            self._answer_rejection(response)
        else:
            self._waiting.append(response)

    def _answer_rejection(self, response: Response) -> None:
        self._linger()
        refused = Request("", "")
        refused.keep_alive = False
        self._write_response(refused, response)

    def _linger(self) -> None:
        """Keep the connection for a while after its last response.

        Closing while the client still sends would reset the connection and lose the response in transit.
        """
        self._linger_until = self._state.loop.time() + self._state.limits.linger_timeout

    def _finish(self, keep_alive: bool) -> None:
        request, self._request = self._request, None
        self._reader.since = self._state.loop.time()
        if not keep_alive:
            if isinstance(request, TruncatedRequest):
                self._linger()
            self._ending = True
            self._end()

    def _end(self) -> None:
        """Close once everything is handed to the transport."""
        self._write_buffer.flush()
        if self._write_buffer.pending:
            self._write_buffer.wants_room = True
        elif self._linger_until is None:
            self._transport.close()
        else:
            self._transport.resume_reading()
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def check_timeouts(self, now: float) -> None:
        """Enforce the timeouts; called periodically by the server."""
        limits, outbox = self._state.limits, self._write_buffer
        if outbox.paused_since is not None and now - outbox.paused_since > limits.stall_timeout:
            self._transport.abort()
        elif self._linger_until is not None:
            if now > self._linger_until and not outbox.pending:
                self._transport.abort()
        elif self._request is None and not self._ending and not self._waiting:
            self._check_reading(now - self._reader.since)
        elif self._request is not None and not self._ending:
            self._check_handling(self._request, now - self._started_at)

    def _check_reading(self, waited: float) -> None:
        limits, stage = self._state.limits, self._reader.stage
        if stage is ReadStage.IDLE:
            if waited > limits.idle_timeout:
                self._transport.close()
        elif waited > (limits.head_timeout if stage is ReadStage.HEAD else limits.body_timeout):
            self._reject(RequestRejection(408, f"the request's {stage.value} did not arrive in time"))

    def _check_handling(self, request: Request, seconds: float) -> None:
        """Answer a request whose time is over; its handler's own response is then dropped."""
        response = self._state.hooks.on_timeout(request, seconds)
        if response is None:
            return
        if self._stream is not None:
            self._transport.abort()
        elif self._task is not None:
            task, self._task = self._task, None
            cancellable = self._is_cancellable()
            self._respond(request, response)
            if cancellable:
                task.cancel()
            self._start_next()

    def shut_down(self) -> None:
        """End streams, close idle connections, let running requests finish, because the server stops."""
        if self._stream is not None:
            self._stream.close()
        elif self._request is None and not self._waiting and not self._ending:
            self._transport.close()
            # An idle TLS client may never answer the close alert; not waiting long for it loses nothing.
            self._state.loop.call_later(self._state.limits.linger_timeout, self._transport.abort)

    def abort(self) -> None:
        """Abort the connection."""
        self._transport.abort()


def _intermediates_of(ssl_object: Any) -> tuple[bytes, ...]:
    """Return the certificates that a client sent besides its own; before Python 3.13 by the module's private API."""
    if hasattr(ssl_object, "get_unverified_chain"):
        sent = ssl_object.get_unverified_chain()
    else:
        import _ssl

        sent = [one.public_bytes(_ssl.ENCODING_DER) for one in ssl_object._sslobj.get_unverified_chain() or ()]
    own = ssl_object.getpeercert(True)
    return tuple(dict.fromkeys(one for one in sent if one != own))
