# SPDX-License-Identifier: Apache-2.0
"""Tests of in-process streams: ended by the writer, closed by the reader, or read too slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kubeloop.apiserver.inprocess.stream import pieces_of
from kubeloop.http import ResponseStream, StreamResponse, encode_chunk


class FunctionStream(StreamResponse):
    """An answer that a function writes."""

    __slots__ = ("_write", "ended")

    def __init__(self, write: Callable[[ResponseStream], Awaitable[None] | None]) -> None:
        super().__init__(200)
        self._write = write
        self.ended = False

    def run(self, stream: ResponseStream) -> Awaitable[None] | None:
        stream.on_close(self._end)
        return self._write(stream)

    def _end(self) -> None:
        self.ended = True


async def whole(response: StreamResponse) -> bytes:
    return b"".join([piece async for piece in pieces_of(response)])


def test_simultaneous_frames_are_joined() -> None:
    async def write(stream: ResponseStream) -> None:
        stream.write(encode_chunk(b"one ") + encode_chunk(b"two "))
        await asyncio.sleep(0)
        stream.write(encode_chunk(b"three\r\n"))

    assert asyncio.run(whole(FunctionStream(write))) == b"one two three\r\n"


def test_stream_without_a_task_ends_when_closed() -> None:
    def write(stream: ResponseStream) -> None:
        stream.write(encode_chunk(b"last words"))
        asyncio.get_running_loop().call_soon(stream.close)

    assert asyncio.run(whole(FunctionStream(write))) == b"last words"


def test_waiting_writer_is_blocked_and_other_writers_are_closed() -> None:
    piece = encode_chunk(b"x" * (1 << 20))
    furthest = 0

    async def patient(stream: ResponseStream) -> None:
        nonlocal furthest
        for _ in range(40):
            stream.write(piece)
            furthest = max(furthest, stream.buffered)
            await stream.wait_drained()

    async def hasty(stream: ResponseStream) -> None:
        for _ in range(40):
            stream.write(piece)

    assert len(asyncio.run(whole(FunctionStream(patient)))) == 40 << 20
    assert furthest == 1 << 20
    with pytest.raises(ConnectionError, match="too slowly"):
        asyncio.run(whole(FunctionStream(hasty)))


def test_closed_reader_cancels_the_writer() -> None:
    async def endless(stream: ResponseStream) -> None:
        while True:
            stream.write(encode_chunk(b"more\n"))
            await asyncio.sleep(0)

    async def main() -> None:
        response = FunctionStream(endless)
        pieces = pieces_of(response)
        await anext(pieces)
        assert not response.ended
        await pieces.aclose()
        assert response.ended
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_exception_of_the_writer_reaches_the_reader() -> None:
    async def broken(stream: ResponseStream) -> None:
        stream.write(encode_chunk(b"begin"))
        raise OSError("the disk is gone")

    async def main() -> None:
        pieces = pieces_of(FunctionStream(broken))
        assert await anext(pieces) == b"begin"
        with pytest.raises(OSError, match="the disk is gone"):
            await anext(pieces)

    asyncio.run(main())
