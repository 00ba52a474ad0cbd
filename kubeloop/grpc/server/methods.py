# SPDX-License-Identifier: Apache-2.0
"""Methods of gRPC services, and the checks of a request's headers. Pure."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from urllib.parse import quote

from kubeloop.grpc.hpack import block_of
from kubeloop.grpc.message import GrpcMessage, M, decode_message, encode_message
from kubeloop.grpc.streams import INTERNAL, INVALID_ARGUMENT, UNIMPLEMENTED, RpcError
from kubeloop.protobuf_wire import ProtobufError

# Bytes of a request to the bytes of any number of responses. Raises RpcError for a status.
GrpcMethod = Callable[[bytes], AsyncGenerator[bytes, None]]
GrpcMethods = Mapping[str, GrpcMethod]  # by path, such as "/v1beta1.Registration/Register"

_CONTENT_TYPE = "application/grpc"
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNIT_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

RESPONSE_HEADERS = block_of(((":status", "200"), ("content-type", _CONTENT_TYPE)))


class RejectedRequest(Exception):
    """Request that is not one of gRPC's, or calls no method of ours."""

    def __init__(self, http_status: int, error: RpcError) -> None:
        super().__init__(error.details)
        self.http_status = http_status
        self.error = error


def unary(kind: type[M], handle: Callable[[M], Awaitable[GrpcMessage]]) -> GrpcMethod:
    """Return a method with one response."""

    async def method(request: bytes) -> AsyncGenerator[bytes, None]:
        yield encode_message(await handle(_decoded(kind, request)))

    return method


def server_streaming(kind: type[M], handle: Callable[[M], AsyncGenerator[GrpcMessage, None]]) -> GrpcMethod:
    """Return a method with any number of responses."""

    async def method(request: bytes) -> AsyncGenerator[bytes, None]:
        responses = handle(_decoded(kind, request))
        try:
            async for response in responses:
                yield encode_message(response)
        finally:
            await responses.aclose()

    return method


def select_method(methods: GrpcMethods, headers: Mapping[str, str]) -> GrpcMethod:
    """Return the method that a request calls; raises RejectedRequest."""
    content_type, verb, path = headers.get("content-type", ""), headers.get(":method", ""), headers.get(":path", "")
    if content_type.partition(";")[0].partition("+")[0] != _CONTENT_TYPE:
        raise RejectedRequest(415, RpcError(INVALID_ARGUMENT, f'invalid gRPC request content-type "{content_type}"'))
    if verb != "POST":
        raise RejectedRequest(405, RpcError(INTERNAL, f'a request has the method "{verb}", which should be POST'))
    if (found := methods.get(path)) is None:
        service, _, name = path.removeprefix("/").rpartition("/")
        is_known = any(one.startswith(f"/{service}/") for one in methods)
        why = f"unknown method {name} for service {service}" if is_known else f"unknown service {service}"
        raise RejectedRequest(200, RpcError(UNIMPLEMENTED, why))
    encoding = headers.get("grpc-encoding", "identity")
    if encoding != "identity":
        why = f'grpc: Decompressor is not installed for grpc-encoding "{encoding}"'
        raise RejectedRequest(200, RpcError(UNIMPLEMENTED, why))
    return found


def timeout_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the caller waits; raises RejectedRequest."""
    if (text := headers.get("grpc-timeout")) is None:
        return None
    if (found := _TIMEOUT.fullmatch(text)) is None:
        raise RejectedRequest(400, RpcError(INTERNAL, f'malformed grpc-timeout: "{text}"'))
    return int(found[1]) * _UNIT_SECONDS[found[2]]


def trailers_of(error: RpcError | None, http_status: int | None = None) -> bytes:
    """Return the block that ends a call; with an HTTP status it is also the beginning of the response."""
    beginning = () if http_status is None else ((":status", str(http_status)), ("content-type", _CONTENT_TYPE))
    if error is None:
        return block_of((*beginning, ("grpc-status", "0")))
    message = quote(error.details, safe=_PRINTABLE)
    return block_of((*beginning, ("grpc-status", str(error.code)), ("grpc-message", message)))


def _decoded(kind: type[M], content: bytes) -> M:
    try:
        return decode_message(kind, content)
    except ProtobufError as error:
        raise RpcError(INTERNAL, f"grpc: error unmarshalling request: {error}") from None
