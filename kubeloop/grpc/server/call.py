# SPDX-License-Identifier: Apache-2.0
"""State of one call at the server: the request as it arrives, and the windows of its stream."""

from __future__ import annotations

import asyncio

from kubeloop.grpc.server.methods import GrpcMethod
from kubeloop.grpc.streams import INTERNAL, PREFIX_BYTES, RESOURCE_EXHAUSTED, RpcError


class ServerCall:
    """Call that has begun. `request` is the message, or the error that the caller gets instead."""

    __slots__ = (
        "_body",
        "_most_bytes",
        "deadline",
        "has_headers",
        "has_request_ended",
        "is_reset",
        "method",
        "number",
        "receive_window",
        "request",
        "send_window",
        "task",
    )

    def __init__(self, number: int, method: GrpcMethod, deadline: float | None, most_bytes: int) -> None:
        self.number = number
        self.method = method
        self.deadline = deadline
        self.request: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        self.send_window = 0  # bytes that we may send
        self.receive_window = 0  # bytes that the client may send
        self.has_headers = False  # of the response
        self.has_request_ended = False
        self.is_reset = False
        self._body = bytearray()
        self._most_bytes = most_bytes

    @property
    def buffered(self) -> int:
        """Bytes of the request that have arrived."""
        return len(self._body)

    def on_data(self, data: bytes) -> None:
        """Add a part of the request."""
        if self.request.done():
            return
        self._body += data
        if len(self._body) < PREFIX_BYTES:
            return
        size = int.from_bytes(self._body[1:PREFIX_BYTES], "big")
        if self._body[0]:
            self.reject(RpcError(INTERNAL, "grpc: compressed flag set with identity or empty encoding"))
        elif size > self._most_bytes:
            why = f"grpc: received message larger than max ({size} vs. {self._most_bytes})"
            self.reject(RpcError(RESOURCE_EXHAUSTED, why))
        elif len(self._body) > PREFIX_BYTES + size:
            self.reject(RpcError(INTERNAL, "the request has more than one message"))

    def on_end(self) -> None:
        """Handle the end of the request."""
        self.has_request_ended = True
        if self.request.done():
            return
        body = self._body
        if len(body) < PREFIX_BYTES or len(body) != PREFIX_BYTES + int.from_bytes(body[1:PREFIX_BYTES], "big"):
            self.reject(RpcError(INTERNAL, "the request is not one whole message"))
        else:
            self.request.set_result(bytes(body[PREFIX_BYTES:]))
            self._body = bytearray()

    def reject(self, error: RpcError) -> None:
        """End the request with an error."""
        if not self.request.done():
            self.request.set_exception(error)
            self.request.exception()  # a call that is cancelled now does not read it
        self._body = bytearray()
