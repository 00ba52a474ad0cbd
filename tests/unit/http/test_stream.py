# SPDX-License-Identifier: Apache-2.0
"""Tests of streams: shared frames, one write per iteration, and slow readers."""

import asyncio
import gc
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

from kubeloop.http import (
    HttpHooks,
    HttpLimits,
    Request,
    Response,
    ResponseStream,
    StreamResponse,
    encode_chunk,
)
from kubeloop.http.protocol import HttpServerConnection
from kubeloop.http.write_buffer import Cork, WriteBuffer


class FunctionStream(StreamResponse):
    """A stream given to a function."""

    __slots__ = ("_runner",)

    def __init__(self, runner: Callable[[ResponseStream], Awaitable[None] | None]) -> None:
        super().__init__()
        self._runner = runner

    def run(self, stream: ResponseStream) -> Awaitable[None] | None:
        return self._runner(stream)


def opener(streams: list[ResponseStream]):
    async def handler(request: Request) -> Response:
        return FunctionStream(streams.append) if request.path == "/watch" else Response(200, b"plain")

    return handler


async def watch(s, streams: list[ResponseStream], path: str = "/watch"):
    client = await s.connect()
    client.get(path)
    assert (await client.head()).headers["transfer-encoding"] == "chunked"
    return client, streams[-1]


def test_a_frame_is_one_chunk():
    assert encode_chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"


def test_one_frame_reaches_every_watcher_and_the_connection_stays_open(run, site):
    async def check() -> None:
        streams: list[ResponseStream] = []
        async with site(opener(streams)) as s:
            watchers = [await watch(s, streams) for _ in range(5)]
            event = encode_chunk(b"event")
            for stream in streams:
                stream.write(event)
                stream.write(event)
            for client, _ in watchers:
                assert await client.chunk() == b"event"
                assert await client.chunk() == b"event"
            client, stream = watchers[0]
            stream.close()
            assert await client.chunk() == b""
            client.get("/plain")
            assert (await client.answer()).body == b"plain"

    run(check())


def test_stream_ends_with_its_coroutine(run, site):
    async def lines(stream: ResponseStream) -> None:
        for number in range(3):
            stream.write(encode_chunk(b"%d" % number))
            await asyncio.sleep(0)

    async def handler(_: Request) -> Response:
        return FunctionStream(lines)

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            for _ in range(2):
                client.get("/")
                assert (await client.answer()).body == b"012"

    run(check())


def test_failed_stream_is_closed_without_final_chunk(run, site):
    errors: list[BaseException] = []

    async def fail(_: ResponseStream) -> None:
        raise ValueError("gone wrong")

    async def handler(_: Request) -> Response:
        return FunctionStream(fail)

    def on_error(_: Request, error: BaseException) -> Response:
        errors.append(error)
        return Response(500)

    async def check() -> None:
        async with site(handler, hooks=HttpHooks(on_error=on_error)) as s:
            client = await s.connect()
            client.get("/")
            await client.head()
            assert await client.rest() == b""
        assert [str(error) for error in errors] == ["gone wrong"]

    run(check())


def test_writer_is_notified_of_a_disconnected_client(run, site):
    async def check() -> None:
        streams: list[ResponseStream] = []
        async with site(opener(streams)) as s:
            client, stream = await watch(s, streams)
            left = asyncio.Event()
            stream.on_close(left.set)
            await client.close()
            await left.wait()
            assert stream.closed
            stream.write(b"into the void")
            late = asyncio.Event()
            stream.on_close(late.set)
            assert late.is_set()

    run(check())


def test_coroutine_of_a_stream_is_cancelled_when_the_client_disconnects(run, site):
    async def check() -> None:
        running, cancelled = asyncio.Event(), asyncio.Event()

        async def forever(_: ResponseStream) -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async def handler(_: Request) -> Response:
            return FunctionStream(forever)

        async with site(handler) as s:
            client = await s.connect()
            client.get("/")
            await running.wait()
            await client.close()
            await cancelled.wait()

    run(check())


def test_slow_reader_is_closed_while_others_continue(run, site, until):
    async def check() -> None:
        streams: list[ResponseStream] = []
        cut: list[str] = []
        hooks = HttpHooks(on_overflow=lambda request: cut.append(request.query))
        async with site(opener(streams), HttpLimits(stream_bytes=1 << 20), hooks) as s:
            client, good = await watch(s, streams, "/watch?good")
            deaf = socket.create_connection(("127.0.0.1", s.server.port))
            deaf.sendall(b"GET /watch?deaf HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: len(streams) == 2)
            slow = streams[1]
            event = encode_chunk(b"x" * 100_000)
            for _ in range(1000):
                for stream in streams:
                    stream.write(event)
                assert await client.chunk() == b"x" * 100_000
                assert slow.closed or slow.buffered <= (1 << 20) + (1 << 20)
                if slow.closed:
                    break
            assert cut == ["deaf"]
            assert not good.closed
            deaf.close()

    run(check())


def test_waiting_writer_is_never_closed(run, site):
    async def flood(stream: ResponseStream) -> None:
        piece = encode_chunk(b"x" * 65_536)
        for _ in range(100):
            stream.write(piece)
            await stream.wait_drained()

    async def handler(_: Request) -> Response:
        return FunctionStream(flood)

    async def check() -> None:
        async with site(handler, HttpLimits(stream_bytes=1 << 20)) as s:
            client = await s.connect()
            client.get("/")
            assert len((await client.answer()).body) == 100 * 65_536

    run(check())


def test_stream_behind_another_request_detects_a_disconnected_client(run, site, until):
    async def check() -> None:
        streams: list[ResponseStream] = []

        async def handler(request: Request) -> Response:
            await asyncio.sleep(0)
            return FunctionStream(streams.append) if request.path == "/watch" else Response()

        async with site(handler) as s:
            client = await s.connect()
            client.get("/first")
            client.get("/watch")
            await until(lambda: len(streams) == 1)
            await client.close()
            await until(lambda: streams[0].closed)

    run(check())


def test_a_stream_needs_http_1_1(run, site):
    async def check() -> None:
        async with site(opener([])) as s:
            client = await s.connect()
            client.send(b"GET /watch HTTP/1.0\r\n\r\n")
            assert (await client.answer()).status == 505

    run(check())


class Recorder:
    """A transport that counts its writes."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0


def test_writes_of_one_iteration_are_joined_and_large_ones_split(run, until):
    async def check() -> None:
        transport = Recorder()
        outbox = WriteBuffer(transport, Cork(asyncio.get_running_loop()), lambda: None)  # type: ignore[arg-type]
        for number in range(10):
            outbox.put_corked(b"%d" % number)
        assert transport.writes == []
        await asyncio.sleep(0)
        assert transport.writes == [b"0123456789"]
        outbox.put_corked(b"x" * 1_000_000)
        await until(lambda: outbox.pending == 0)
        assert [len(write) for write in transport.writes[1:]] == [262_144, 262_144, 262_144, 213_568]

    run(check())


def test_paused_outbox_keeps_its_bytes_until_the_peer_reads(run):
    async def check() -> None:
        transport = Recorder()
        outbox = WriteBuffer(transport, Cork(asyncio.get_running_loop()), lambda: None)  # type: ignore[arg-type]
        outbox.pause()
        outbox.put_corked(b"held")
        await asyncio.sleep(0)
        assert (transport.writes, outbox.buffered, outbox.is_congested) == ([], 4, True)
        outbox.resume()
        assert (transport.writes, outbox.buffered, outbox.is_congested) == ([b"held"], 0, False)

    run(check())


class Writes:
    """Transport that records each write."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.seen.append(bytes(data))


def test_end_is_written_apart_from_the_data() -> None:
    async def scenario() -> list[bytes]:
        transport = Writes()
        buffer = WriteBuffer(cast(Any, transport), Cork(asyncio.get_running_loop()), lambda: None)
        stream = ResponseStream(buffer, 1 << 20, lambda: None, lambda: None)
        stream.write(encode_chunk(b"data"))
        stream.close()
        await asyncio.sleep(0)
        return transport.seen

    assert asyncio.run(scenario()) == [b"4\r\ndata\r\n", b"0\r\n\r\n"]


def test_lost_connection_with_an_open_stream_is_freed_without_the_garbage_collector(run, site, until):
    async def check() -> None:
        streams: list[ResponseStream] = []
        async with site(opener(streams)) as s:
            before = live_connections()
            client = (await watch(s, streams))[0]
            assert live_connections() == before + 1
            await client.close()
            await until(lambda: streams[0].closed)
            streams.clear()
            await until(lambda: live_connections() == before)

    def live_connections() -> int:
        return sum(type(one) is HttpServerConnection for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        run(check())
    finally:
        gc.enable()
