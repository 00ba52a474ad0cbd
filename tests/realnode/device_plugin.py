# SPDX-License-Identifier: Apache-2.0
"""Device plugin of the tests, with the real gRPC library: widgets backed by /dev/null.

A file has the health of each device: `{"w1": "Healthy"}`. The plugin announces its changes, and registers again when
the kubelet creates its socket anew. Messages are encoded by hand, apart from the code under test.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc

RESOURCE = "example.com/widget"
SOCKET, KUBELET = "widget.sock", "kubelet.sock"
POLL_SECONDS = 0.1


def field(number: int, content: bytes) -> bytes:
    """Return a delimited field of a protobuf message; contents are short."""
    assert len(content) < 0x80
    return bytes([number << 3 | 2, len(content)]) + content


def texts(message: bytes, number: int) -> Iterator[bytes]:
    """Yield the delimited fields with a number."""
    at = 0
    while at < len(message):
        tag, size = message[at], message[at + 1]
        if tag == number << 3 | 2:
            yield message[at + 2 : at + 2 + size]
        at += 2 + size


class WidgetPlugin:
    """Serves the plugin at its socket in the kubelet's folder."""

    def __init__(self, folder: Path, state: Path) -> None:
        self._folder = folder
        self._state = state

    async def run(self) -> None:
        """Serve, and register at each new kubelet."""
        known: tuple[int, int] | None = None
        server: grpc.aio.Server | None = None
        while True:
            if (found := self._kubelet_socket()) is not None and found != known:
                if server is not None:
                    await server.stop(0)
                server = await self._serve()
                known = found if await self._register() else None
            await asyncio.sleep(POLL_SECONDS)

    def _kubelet_socket(self) -> tuple[int, int] | None:
        with contextlib.suppress(FileNotFoundError):
            stat = (self._folder / KUBELET).stat()
            return stat.st_ino, stat.st_ctime_ns
        return None

    async def _serve(self) -> grpc.aio.Server:
        handlers = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(self._options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list_and_watch),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
            "PreStartContainer": grpc.unary_unary_rpc_method_handler(self._pre_start),
        }
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
        (self._folder / SOCKET).unlink(missing_ok=True)
        server.add_insecure_port(f"unix://{self._folder / SOCKET}")
        await server.start()
        return server

    async def _register(self) -> bool:
        request = field(1, b"v1beta1") + field(2, SOCKET.encode()) + field(3, RESOURCE.encode())
        async with grpc.aio.insecure_channel(f"unix://{self._folder / KUBELET}") as channel:
            try:
                await channel.unary_unary("/v1beta1.Registration/Register")(request)
            except grpc.aio.AioRpcError as error:
                print(error.details(), flush=True)  # noqa: T201  # to the log of the test
                return False
        return True

    async def _options(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return b"\x08\x01"  # PreStartContainer is required

    async def _list_and_watch(self, request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        told = None
        while True:
            text = self._state.read_text()
            if text and text != told:
                told = text
                devices = json.loads(text).items()
                yield b"".join(field(1, field(1, id.encode()) + field(2, health.encode())) for id, health in devices)
            await asyncio.sleep(POLL_SECONDS)

    async def _allocate(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        response = b""
        for one in texts(request, 1):
            ids = sorted(texts(one, 1))
            found = field(1, field(1, b"WIDGETS") + field(2, b",".join(ids)))
            for id in ids:
                found += field(3, field(1, b"/dev/" + id) + field(2, b"/dev/null") + field(3, b"rw"))
            response += field(1, found + field(4, field(1, b"example.com/allocated") + field(2, b"yes")))
        return response

    async def _pre_start(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        started = self._state.with_name("started")
        started.write_text(started.read_text() + "".join(f"{id.decode()}\n" for id in texts(request, 1)))
        return b""


if __name__ == "__main__":
    asyncio.run(WidgetPlugin(Path(sys.argv[1]), Path(sys.argv[2])).run())
