# SPDX-License-Identifier: Apache-2.0
"""A transport of the tests' own, and WebSocket frames by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

from tests.bounds import GIVE_UP_SECONDS

Given = ParamSpec("Given")


def in_loop(test: Callable[Given, Coroutine[Any, Any, None]]) -> Callable[Given, None]:
    """Run a test in a new event loop."""

    @wraps(test)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class FakeTransport:
    """Connection taken over by the server; records what it writes."""

    def __init__(self) -> None:
        self.sent = b""
        self.headers: dict[str, str] = {}
        self._protocol: Any = None
        self._closed = asyncio.Event()

    def receive(self, data: bytes) -> None:
        """The client sends something."""
        self._protocol.data_received(data)

    def lose(self) -> None:
        """Disconnect the client."""
        self._protocol.connection_lost(None)

    async def until_closed(self) -> None:
        await asyncio.wait_for(self._closed.wait(), GIVE_UP_SECONDS)

    # Methods called by the server.

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        self.sent += data

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self._closed.set()


def masked(payload: bytes, opcode: int = 2) -> bytes:
    """A client's frame; its mask is nought."""
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes([0x80 | opcode]) + size + bytes(4) + payload


def unmasked(sent: bytes) -> list[tuple[int, bytes]]:
    """The server's frames, each with its opcode."""
    frames = []
    while sent:
        length, begin = sent[1], 2
        if length > 125:
            begin = 4 if length == 126 else 10
            length = int.from_bytes(sent[2:begin], "big")
        frames.append((sent[0] & 0x0F, sent[begin : begin + length]))
        sent = sent[begin + length :]
    return frames
