"""Answers that go on, read within the process: ended by their writer, left by their reader, or read too slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kubeloop.apiserver.inprocess.stream import pieces_of
from kubeloop.http import ResponseStream, StreamResponse, encode_chunk


class Written(StreamResponse):
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


def test_frames_that_come_together_are_one_text() -> None:
    async def write(stream: ResponseStream) -> None:
        stream.write(encode_chunk(b"one ") + encode_chunk(b"two "))
        await asyncio.sleep(0)
        stream.write(encode_chunk(b"three\r\n"))

    assert asyncio.run(whole(Written(write))) == b"one two three\r\n"


def test_a_stream_without_a_task_ends_when_somebody_closes_it() -> None:
    def write(stream: ResponseStream) -> None:
        stream.write(encode_chunk(b"last words"))
        asyncio.get_running_loop().call_soon(stream.close)

    assert asyncio.run(whole(Written(write))) == b"last words"


def test_a_writer_that_waits_is_held_back_and_one_that_does_not_is_cut_off() -> None:
    piece = encode_chunk(b"x" * (1 << 20))
    furthest = 0

    async def patient(stream: ResponseStream) -> None:
        nonlocal furthest
        for _ in range(40):
            stream.write(piece)
            furthest = max(furthest, stream.buffered)
            await stream.drained()

    async def hasty(stream: ResponseStream) -> None:
        for _ in range(40):
            stream.write(piece)

    assert len(asyncio.run(whole(Written(patient)))) == 40 << 20
    assert furthest == 1 << 20
    with pytest.raises(ConnectionError, match="too slowly"):
        asyncio.run(whole(Written(hasty)))


def test_a_reader_that_leaves_ends_the_writer() -> None:
    async def endless(stream: ResponseStream) -> None:
        while True:
            stream.write(encode_chunk(b"more\n"))
            await asyncio.sleep(0)

    async def main() -> None:
        response = Written(endless)
        pieces = pieces_of(response)
        await anext(pieces)
        assert not response.ended
        await pieces.aclose()
        assert response.ended
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_what_the_writer_raises_reaches_the_reader() -> None:
    async def broken(stream: ResponseStream) -> None:
        stream.write(encode_chunk(b"begin"))
        raise OSError("the disk is gone")

    async def main() -> None:
        pieces = pieces_of(Written(broken))
        assert await anext(pieces) == b"begin"
        with pytest.raises(OSError, match="the disk is gone"):
            await anext(pieces)

    asyncio.run(main())
