# SPDX-License-Identifier: Apache-2.0
"""A KMS plugin as a process of its own: gRPC by the real library, keys in memory, told what to do by its input.

Each line of standard input is a command: `key NAME` changes the current key, `health TEXT` the health.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import grpc

from kubeloop.protobuf_wire import bytes_field, read_fields

STATE = {"key": "key-1", "health": "ok"}


def fields_of(request: bytes) -> dict[int, Any]:
    return dict(read_fields(request))


def masked(data: bytes, key: str) -> bytes:
    return bytes(byte ^ len(key) for byte in data)


def status(_: bytes) -> bytes:
    texts = ("v2", STATE["health"], STATE["key"])
    return b"".join(bytes_field(number, text.encode()) for number, text in enumerate(texts, 1))


def encrypt(request: bytes) -> bytes:
    key = STATE["key"]
    annotation = bytes_field(1, b"local-kek.kms.example.com") + bytes_field(2, b"x")
    sealed = masked(fields_of(request)[1], key)
    return bytes_field(1, sealed) + bytes_field(2, key.encode()) + bytes_field(3, annotation)


def decrypt(request: bytes) -> bytes:
    fields = fields_of(request)
    assert 4 in fields, "the annotations come back"
    return bytes_field(1, masked(fields[1], fields[3].decode()))


def method(handle: Callable[[bytes], bytes]) -> grpc.RpcMethodHandler:
    async def respond(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        if STATE["health"] == "refuse":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "go away")
        return handle(request)

    return grpc.unary_unary_rpc_method_handler(respond)


def answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(path: str) -> None:
    server = grpc.aio.server()
    handlers = {"Status": method(status), "Encrypt": method(encrypt), "Decrypt": method(decrypt)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v2.KeyManagementService", handlers),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    answer("ready")
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, _, value = line.strip().partition(" ")
        STATE[name] = value
        answer("done")
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
