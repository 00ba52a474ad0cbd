# SPDX-License-Identifier: Apache-2.0
"""The connection to etcd, frame by frame, with a server that is made up: windows, limits, ends, damage, silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.grpc.hpack import BadHeaders, block_of, read_block
from kubeloop.grpc.http2 import Http2Connection
from kubeloop.grpc.streams import DEADLINE_EXCEEDED, UNAVAILABLE, RpcError
from kubeloop.sim.loop import VirtualLoop, run_virtual

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GOOD = block_of([("grpc-status", "0")])
REQUEST = block_of([(":path", "/some/method")])

Frame = tuple[int, int, int, bytes]


class FakeServer(asyncio.Transport):
    """Fake transport of the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.link = Http2Connection(3.0)
        self._written = b""
        self.is_gone = False
        self.link.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written += bytes(data)

    def is_closing(self) -> bool:
        return self.is_gone

    def abort(self) -> None:
        self.is_gone = True

    async def frames(self) -> list[Frame]:
        """Return the bytes sent since the last call."""
        await asyncio.sleep(0)
        data, self._written = self._written.removeprefix(PREFACE), b""
        found: list[Frame] = []
        while data:
            size = int.from_bytes(data[:3], "big")
            found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
            data = data[9 + size :]
        return found

    def tell(self, *frames: Frame) -> None:
        self.link.data_received(b"".join(map(framed, frames)))

    def answer(self, number: int, message: bytes) -> None:
        self.tell(*answered(number, message))


def framed(frame: Frame) -> bytes:
    kind, flags, number, payload = frame
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + number.to_bytes(4, "big") + payload


def message_of(body: bytes) -> bytes:
    return b"\0" + len(body).to_bytes(4, "big") + body


def answered(number: int, message: bytes) -> list[Frame]:
    return [
        (HEADERS, END_HEADERS, number, b"\x88"),
        (DATA, 0, number, message_of(message)),
        (HEADERS, END_HEADERS | END_STREAM, number, GOOD),
    ]


def play(scenario: Callable[[FakeServer], Awaitable[None]]) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        server = FakeServer()
        await scenario(server)
        server.link.close()

    run_virtual(main(), loop=loop)


def test_request_is_sent_whole_and_its_response_arrives_in_pieces() -> None:
    async def scenario(server: FakeServer) -> None:
        (kind, _, _, settings_), _ = await server.frames()
        assert kind == SETTINGS
        assert pack(">HI", 1, 0) in settings_  # no table of headers
        answer = server.link.call(REQUEST, b"question")
        assert await server.frames() == [
            (HEADERS, END_HEADERS, 1, REQUEST),
            (DATA, END_STREAM, 1, message_of(b"question")),
        ]
        for byte in b"".join(map(framed, answered(1, b"answer" * 100))):
            server.link.data_received(bytes([byte]))
        assert await answer == b"answer" * 100

    play(scenario)


@settings(max_examples=30)
@given(st.permutations([1, 3, 5, 7]), st.integers(1, 40))
def test_responses_are_matched_in_any_order(order: list[int], size: int) -> None:
    async def scenario(server: FakeServer) -> None:
        calls = [server.link.call(REQUEST, b"") for _ in order]
        data = b"".join(framed(one) for number in order for one in answered(number, str(number).encode()))
        for at in range(0, len(data), size):
            server.link.data_received(data[at : at + size])
        assert await asyncio.gather(*calls) == [b"1", b"3", b"5", b"7"]

    play(scenario)


def test_status_has_its_message() -> None:
    async def scenario(server: FakeServer) -> None:
        refused = server.link.call(REQUEST, b"")
        # `grpc-message` and its text, packed as Go's server does it.
        trailers = block_of([("grpc-status", "11"), ("grpc-message", "mvcc: required revision has been compacted%21")])
        server.tell((HEADERS, END_HEADERS | END_STREAM, 1, trailers))
        with pytest.raises(RpcError) as told:
            await refused
        assert (told.value.code, told.value.details) == (11, "mvcc: required revision has been compacted!")
        strange = server.link.call(REQUEST, b"")
        server.tell((HEADERS, END_HEADERS | END_STREAM, 3, block_of([(":status", "404")])))
        with pytest.raises(RpcError, match="HTTP status 404"):
            await strange

    play(scenario)


def test_long_message_waits_for_flow_control_without_blocking_others() -> None:
    async def scenario(server: FakeServer) -> None:
        await server.frames()
        body = bytes(range(256)) * 800
        server.tell((WINDOW, 0, 0, pack(">I", 1_000_000)))  # the connection has room, a stream has not
        server.link.call(REQUEST, body)
        sent = [one for one in await server.frames() if one[0] == DATA]
        assert sum(len(one[3]) for one in sent) == 65_535
        assert all(len(one[3]) <= 16_384 and not one[1] for one in sent)
        server.link.call(REQUEST, b"short")
        assert (DATA, END_STREAM, 3, message_of(b"short")) in await server.frames()
        server.tell((WINDOW, 0, 1, pack(">I", 1_000_000)))
        sent += [one for one in await server.frames() if one[0] == DATA]
        assert b"".join(one[3] for one in sent) == message_of(body)
        assert sent[-1][1] == END_STREAM

    play(scenario)


def test_concurrent_streams_respect_the_servers_limit() -> None:
    async def scenario(server: FakeServer) -> None:
        server.tell((SETTINGS, 0, 0, pack(">HI", 3, 1)))
        assert (SETTINGS, ACK, 0, b"") in await server.frames()
        calls = [server.link.call(REQUEST, b"") for _ in range(3)]
        for number in (1, 3, 5):
            assert [one[2] for one in await server.frames() if one[0] == HEADERS] == [number]
            server.answer(number, b"")
        await asyncio.gather(*calls)

    play(scenario)


def test_goaway_finishes_started_streams_only() -> None:
    async def scenario(server: FakeServer) -> None:
        begun, refused = server.link.call(REQUEST, b""), server.link.call(REQUEST, b"")
        server.tell((GOAWAY, 0, 0, pack(">II", 1, 0) + b"bye"))
        assert not server.link.is_usable
        with pytest.raises(RpcError, match="goes away: bye"):
            await refused
        server.answer(1, b"done")
        assert await begun == b"done"
        assert server.is_gone  # once nothing is left to wait for

    play(scenario)


def test_failed_call_reports_if_it_may_have_been_executed() -> None:
    async def scenario(server: FakeServer) -> None:
        server.tell((SETTINGS, 0, 0, pack(">HI", 3, 4)))  # at most four concurrently
        sent, refused, ended, long = (
            server.link.call(REQUEST, message) for message in (b"sent", b"refused", b"ended", b"x" * 100_000)
        )
        waiting = server.link.call(REQUEST, b"for its turn")
        server.tell((RESET, 0, 3, pack(">I", 7)), (RESET, 0, 5, pack(">I", 2)))
        late = server.link.call(REQUEST, b"also sent")
        more = server.link.call(REQUEST, b"for its turn, and in vain")
        server.link.close()
        after = server.link.call(REQUEST, b"nobody hears it")
        calls = [sent, refused, ended, long, waiting, late, more, after]
        failures = await asyncio.gather(*calls, return_exceptions=True)
        undone = [isinstance(failure, RpcError) and failure.is_not_executed for failure in failures]
        assert undone == [False, True, False, True, True, True, True, True], "behind the long one nothing was sent"

    play(scenario)


def test_expired_queued_call_is_not_sent() -> None:
    async def scenario(server: FakeServer) -> None:
        server.tell((SETTINGS, 0, 0, pack(">HI", 3, 1)))
        first, second = server.link.call(REQUEST, b"first"), server.link.call(REQUEST, b"second")
        for call in (first, second):
            with pytest.raises(RpcError):
                await call
        assert [payload for kind, _, _, payload in await server.frames() if kind == DATA] == [message_of(b"first")]

    play(scenario)


def test_pings_are_answered_and_resets_are_reported() -> None:
    async def scenario(server: FakeServer) -> None:
        server.tell((PING, 0, 0, b"12345678"))
        assert (PING, ACK, 0, b"12345678") in await server.frames()
        call = server.link.call(REQUEST, b"")
        server.tell((RESET, 0, 1, pack(">I", 7)))
        with pytest.raises(RpcError) as told:
            await call
        assert told.value.code == UNAVAILABLE

    play(scenario)


def test_message_stream_is_read_in_batches() -> None:
    async def scenario(server: FakeServer) -> None:
        messages = server.link.call_stream(REQUEST, b"from here on")
        first, second = message_of(b"one"), message_of(b"two" * 1000)
        server.tell((HEADERS, END_HEADERS, 1, b"\x88"), (DATA, 0, 1, first + second[:100]))
        assert await messages.read() == [b"one"]
        server.tell((DATA, 0, 1, second[100:]), (DATA, 0, 1, first))
        assert await messages.read() == [b"two" * 1000, b"one"]
        server.link.connection_lost(OSError("gone"))
        with pytest.raises(RpcError, match="gone"):
            await messages.read()

    play(scenario)


def test_timeout_is_reported_and_resets_the_stream() -> None:
    async def scenario(server: FakeServer) -> None:
        call, began = server.link.call(REQUEST, b""), asyncio.get_running_loop().time()
        with pytest.raises(RpcError) as told:
            await call
        assert told.value.code == DEADLINE_EXCEEDED
        assert 3.0 <= asyncio.get_running_loop().time() - began < 3.1
        assert [one[0] for one in await server.frames()][-1] == RESET

    play(scenario)


def test_silent_server_is_pinged_once_then_closed() -> None:
    async def scenario(server: FakeServer) -> None:
        messages = server.link.call_stream(REQUEST, b"")
        with pytest.raises(RpcError, match="silent"):
            await messages.read()
        assert [one[0] for one in await server.frames()].count(PING) == 1
        assert 15 <= asyncio.get_running_loop().time() < 20

    play(scenario)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 255), st.sampled_from([0, 1, 3]), st.binary(max_size=30))))
def test_any_server_data_ends_in_a_response_or_an_error(sent: list[Frame]) -> None:
    async def scenario(server: FakeServer) -> None:
        call = server.link.call(REQUEST, b"")
        server.tell(*sent)
        server.link.close()
        await asyncio.gather(call, return_exceptions=True)
        assert call.done()

    play(scenario)


def test_huffman_texts_follow_the_standard() -> None:
    examples = {"f1e3c2e5f23a6ba0ab90f4ff": "www.example.com", "a8eb10649cbf": "no-cache", "6402": "302"}
    for packed, text in examples.items():
        value = bytes.fromhex(packed)
        assert read_block(b"\0\x01x" + bytes([0x80 | len(value)]) + value) == {"x": text}


@settings(max_examples=30)
@given(st.lists(st.tuples(st.from_regex(r"[a-z-]{1,20}", fullmatch=True), st.text("az09 %", max_size=300)), max_size=5))
def test_headers_round_trip(headers: list[tuple[str, str]]) -> None:
    assert read_block(block_of(headers)) == dict(headers)


@given(st.binary(max_size=40))
def test_any_header_block_is_decoded_or_rejected(block: bytes) -> None:
    with suppress(BadHeaders):
        read_block(block)


def test_dynamic_table_is_rejected() -> None:
    with pytest.raises(BadHeaders, match="which was disabled"):
        read_block(b"\xbe")
