# SPDX-License-Identifier: Apache-2.0
"""Channel to a gRPC server at a Unix socket: one connection, opened as needed and again after it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from kubeloop.grpc.hpack import block_of
from kubeloop.grpc.http2 import Http2Connection
from kubeloop.grpc.message import GrpcMessage, M, decode_message, encode_message
from kubeloop.grpc.streams import DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, RpcError
from kubeloop.protobuf_wire import ProtobufError

_DIAL_SECONDS = 5.0
_UNIX = "unix://"


class UnixChannel:
    """Channel to one server. An abstract socket's path begins with `@`."""

    def __init__(self, endpoint: str) -> None:
        path = endpoint.removeprefix(_UNIX)
        self._path = f"\0{path[1:]}" if path.startswith("@") else path
        self._connection: Http2Connection | None = None
        self._dial_lock = asyncio.Lock()

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        """Make a unary call; raises RpcError, also after the time limit."""
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connect()
                return await connection.call_until_cancelled(_headers(method), request)
        except TimeoutError:
            raise RpcError(DEADLINE_EXCEEDED, "context deadline exceeded") from None

    async def invoke(self, method: str, request: GrpcMessage, response: type[M], seconds: float) -> M:
        """Make a unary call with messages; raises RpcError, also for a malformed response."""
        content = await self.call(method, encode_message(request), seconds)
        return _decoded(response, content)

    async def stream(self, method: str, request: GrpcMessage, response: type[M]) -> AsyncGenerator[M, None]:
        """Yield the messages of a server-streaming call until it fails with RpcError."""
        connection = await self._connect()
        call = connection.call_server_stream(_headers(method), encode_message(request))
        try:
            while True:
                for content in await call.read():
                    yield _decoded(response, content)
        finally:
            call.cancel()

    async def connect(self) -> None:
        """Open the connection unless it is open; raises RpcError."""
        await self._connect()

    async def wait_disconnected(self) -> None:
        """Wait until the present connection has ended; no calls are needed for that."""
        if self._connection is not None:
            await self._connection.wait_closed()

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            await self._connection.wait_closed()

    async def _connect(self) -> Http2Connection:
        async with self._dial_lock:  # calls that begin together share one connection
            connection = self._connection
            if connection is None or not connection.is_usable:
                loop = asyncio.get_running_loop()
                try:
                    async with asyncio.timeout(_DIAL_SECONDS):
                        _, connection = await loop.create_unix_connection(_new_connection, self._path)
                except OSError as error:  # TimeoutError is one
                    why = (error.strerror or str(error) or "timed out").lower()
                    raise RpcError(UNAVAILABLE, f"connection error: dial unix: {why}", is_not_executed=True) from None
                self._connection = connection
            return connection


def _new_connection() -> Http2Connection:
    return Http2Connection(sends_pings=False)


def _decoded(kind: type[M], content: bytes) -> M:
    try:
        return decode_message(kind, content)
    except ProtobufError as error:
        raise RpcError(INTERNAL, f"malformed response: {error}") from None


def _headers(method: str) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "user-agent": "kubeloop",
        "te": "trailers",
    }
    return block_of(headers.items())
