# SPDX-License-Identifier: Apache-2.0
"""gRPC responses on an HTTP/2 stream: one message, or any number, and then a status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import unquote

# Names of gRPC's codes, as Go prints them, by number.
_CODE_NAMES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
    "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
    "Internal", "Unavailable", "DataLoss", "Unauthenticated",
)  # fmt: skip
UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED = 2, 3, 4, 5, 8
OUT_OF_RANGE, UNIMPLEMENTED = 11, 12
INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 13, 14, 16
PREFIX_BYTES = 5  # of a message: whether it is compressed, and its length


class RpcError(Exception):
    """Failed call. `is_not_executed` if the server has certainly not executed it."""

    def __init__(self, code: int, details: str, *, is_not_executed: bool = False) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.is_not_executed = is_not_executed

    @property
    def code_name(self) -> str:
        """Name of the code, as Go's gRPC library prints it."""
        return _CODE_NAMES[self.code] if self.code < len(_CODE_NAMES) else f"Code({self.code})"

    def format(self) -> str:
        """Format the error as Go's gRPC library does."""
        return f"rpc error: code = {self.code_name} desc = {self.details}"


class GrpcStream:
    """Connection state of a call. `window`: bytes that may be sent; `taken`: received bytes not acknowledged."""

    __slots__ = ("number", "taken", "window")

    ends_after_one = True

    def __init__(self) -> None:
        self.number = 0
        self.window = 0
        self.taken = 0

    @property
    def is_done(self) -> bool:
        """True if the call has ended."""
        raise NotImplementedError

    def begin(self, headers: Mapping[str, str]) -> None:
        """Handle response headers; the HTTP status shows if it is not a gRPC server."""

    def on_data(self, data: bytes) -> None:
        """Handle data."""
        raise NotImplementedError

    def finish(self) -> None:
        """Handle a successful status."""
        raise NotImplementedError

    def fail(self, error: RpcError) -> None:
        """Handle a failure."""
        raise NotImplementedError

    def error_of(self, headers: Mapping[str, str]) -> RpcError | None:
        """Return the error in the trailers; None for success."""
        status = headers.get("grpc-status")
        if status is None:
            return RpcError(UNAVAILABLE, f"HTTP status {headers.get(':status', 'missing')}, not an answer of gRPC's")
        if status == "0":
            return None
        code = int(status) if status.isdigit() else UNKNOWN
        return RpcError(code, unquote(headers.get("grpc-message", "")) or f"status {status}")


class UnaryResponse(GrpcStream):
    """Response of a unary call."""

    __slots__ = ("_parts", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.future: asyncio.Future[bytes] = loop.create_future()
        self._parts: list[bytes] = []

    @property
    def is_done(self) -> bool:
        """True if the future is done."""
        return self.future.done()

    def on_data(self, data: bytes) -> None:
        """Store a part of the message."""
        self._parts.append(data)

    def finish(self) -> None:
        """Resolve the future with the message."""
        if self.future.done():
            return
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if len(body) < PREFIX_BYTES or len(body) - PREFIX_BYTES != int.from_bytes(body[1:PREFIX_BYTES], "big"):
            self.future.set_exception(RpcError(INTERNAL, "the answer is not one whole message"))
        else:
            self.future.set_result(body[PREFIX_BYTES:])

    def fail(self, error: RpcError) -> None:
        """Fail the future."""
        if not self.future.done():
            self.future.set_exception(error)


class StreamingResponse(GrpcStream):
    """Responses of a call, read in batches; the request stays open."""

    __slots__ = ("_buffer", "_cancel", "_error", "_loop", "_ready", "_waiter")

    ends_after_one = False

    def __init__(self, loop: asyncio.AbstractEventLoop, cancel: Callable[[GrpcStream], None]) -> None:
        super().__init__()
        self._loop = loop
        self._cancel = cancel
        self._buffer = bytearray()
        self._ready: list[bytes] = []
        self._error: RpcError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_done(self) -> bool:
        """True if the stream has ended."""
        return self._error is not None

    async def read(self) -> list[bytes]:
        """Return the messages received since the last call; raises `RpcError` at the end."""
        while not self._ready:
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            await self._waiter
        ready, self._ready = self._ready, []
        return ready

    def cancel(self) -> None:
        """Cancel the call."""
        self._cancel(self)

    def on_data(self, data: bytes) -> None:
        """Split data into messages."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= PREFIX_BYTES:
            end = at + PREFIX_BYTES + int.from_bytes(buffer[at + 1 : at + PREFIX_BYTES], "big")
            if end > len(buffer):
                break
            self._ready.append(bytes(buffer[at + PREFIX_BYTES : end]))
            at = end
        if at:
            del buffer[:at]
            self._wake()

    def finish(self) -> None:
        """End the stream."""
        self.fail(RpcError(UNAVAILABLE, "the server has ended the stream"))

    def fail(self, error: RpcError) -> None:
        """End the stream with an error."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ServerStreamingResponse(StreamingResponse):
    """Responses of a call whose request is one message."""

    __slots__ = ()

    ends_after_one = True
