# SPDX-License-Identifier: Apache-2.0
"""Tests of the server's connection, frame by frame: violations, limits, windows, deadlines and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.grpc import frames
from kubeloop.grpc.hpack import block_of, read_block
from kubeloop.grpc.message import GrpcMessage
from kubeloop.grpc.server.connection import ServerConnection
from kubeloop.grpc.server.limits import GrpcServerLimits
from kubeloop.grpc.server.methods import server_streaming, unary
from kubeloop.grpc.streams import NOT_FOUND, RpcError
from kubeloop.sim.loop import run_virtual

Frame = tuple[int, int, int, bytes]
LIMITS = GrpcServerLimits(streams=2, header_bytes=1_000, message_bytes=100_000, buffered_bytes=150_000)
END = frames.END_HEADERS | frames.END_STREAM


class Text(GrpcMessage, frozen=True, kw_only=True):
    text: Annotated[str, 1] = ""


class FakeClient(asyncio.Transport):
    """Client whose frames are written by hand."""

    def __init__(self, *, greets: bool = True) -> None:
        super().__init__()
        self.cancelled = asyncio.Event()
        self.lost = False
        self.is_reading = True
        self._written = b""
        self._is_closed = False
        methods = {
            "/test.Echo/Echo": unary(Text, self._echo),
            "/test.Echo/Fail": unary(Text, self._fail),
            "/test.Echo/Break": unary(Text, self._break),
            "/test.Echo/Hang": unary(Text, self._hang),
            "/test.Echo/Count": server_streaming(Text, self._count),
        }
        self.link = ServerConnection(methods, LIMITS, self._on_lost)
        self.link.connection_made(self)
        if greets:
            self.link.data_received(frames.PREFACE)
            self.send((frames.SETTINGS, 0, 0, b""))

    def _on_lost(self, connection: ServerConnection) -> None:
        self.lost = True

    async def _echo(self, request: Text) -> Text:
        return request

    async def _fail(self, request: Text) -> Text:
        raise RpcError(NOT_FOUND, "100% größer")

    async def _break(self, request: Text) -> Text:
        raise KeyError("defect")

    async def _hang(self, request: Text) -> Text:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return request

    async def _count(self, request: Text) -> AsyncGenerator[Text, None]:
        try:
            for number in range(int(request.text)):
                yield Text(text=str(number))
        finally:
            self.cancelled.set()

    # -- as a transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written += bytes(data)

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            asyncio.get_running_loop().call_soon(self.link.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    # -- as a client

    def send(self, *sent: Frame) -> None:
        data = b""
        for kind, flags, number, payload in sent:
            data += frames.frame_header(kind, flags, number, len(payload)) + payload
        self.link.data_received(data)

    def call(self, number: int, method: str, text: str = "", **headers: str) -> None:
        self.send((frames.HEADERS, frames.END_HEADERS, number, request_headers(method, **headers)))
        self.send((frames.DATA, frames.END_STREAM, number, message(text)))

    async def frames(self) -> list[Frame]:
        """Return the frames received since the last call, after all tasks have had their turn."""
        for _ in range(20):
            await asyncio.sleep(0)
        data, self._written = self._written, b""
        found: list[Frame] = []
        while data:
            size = int.from_bytes(data[:3], "big")
            found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
            data = data[9 + size :]
        return found

    async def status(self, number: int) -> tuple[str, str]:
        """Return status and message of a call that has ended."""
        [last] = [
            payload
            for kind, flags, stream, payload in await self.frames()
            if kind == frames.HEADERS and flags & frames.END_STREAM and stream == number
        ]
        trailers = read_block(last)
        return trailers["grpc-status"], unquote(trailers.get("grpc-message", ""))


def request_headers(method: str, **headers: str) -> bytes:
    all_headers = {":method": "POST", ":path": f"/test.Echo/{method}", "content-type": "application/grpc"}
    all_headers |= {name.replace("_", "-").removeprefix("p-"): value for name, value in headers.items()}
    return block_of(all_headers.items())


def message(text: str) -> bytes:
    content = b"" if not text else b"\x0a" + varint(len(text)) + text.encode()
    return b"\0" + len(content).to_bytes(4, "big") + content


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def run(story: Callable[[FakeClient], Awaitable[None]]) -> None:
    async def whole() -> None:
        client = FakeClient()
        await client.frames()
        await story(client)
        client.close()
        await client.frames()
        assert client.lost

    run_virtual(whole())


def data_of(received: list[Frame], number: int) -> bytes:
    return b"".join(payload for kind, _, stream, payload in received if kind == frames.DATA and stream == number)


def test_a_unary_call_is_answered() -> None:
    async def story(client: FakeClient) -> None:
        client.call(1, "Echo", "hello")
        headers, data, trailers = await client.frames()
        assert headers[:3] == (frames.HEADERS, frames.END_HEADERS, 1)
        assert read_block(headers[3]) == {":status": "200", "content-type": "application/grpc"}
        assert data == (frames.DATA, 0, 1, message("hello"))
        assert trailers[:3] == (frames.HEADERS, END, 1)
        assert read_block(trailers[3]) == {"grpc-status": "0"}

    run(story)


def test_the_parts_of_a_request_may_be_divided_anywhere() -> None:
    async def story(client: FakeClient) -> None:
        block, body = request_headers("Echo"), message("divided")
        client.send((frames.HEADERS, frames.PADDED | frames.HAS_PRIORITY, 1, b"\x03" + bytes(5) + block[:9] + bytes(3)))
        client.send((frames.CONTINUATION, 0, 1, block[9:20]), (frames.CONTINUATION, frames.END_HEADERS, 1, block[20:]))
        for byte in body:
            client.send((frames.DATA, frames.PADDED, 1, b"\x01" + bytes([byte]) + b"\0"))
        client.send((frames.HEADERS, END, 1, block_of([("trailer", "x")])))
        assert data_of(await client.frames(), 1) == body

    run(story)


def test_errors_of_methods_are_statuses() -> None:
    async def story(client: FakeClient) -> None:
        client.call(1, "Fail")
        assert await client.status(1) == ("5", "100% größer")
        client.call(3, "Break")
        assert await client.status(3) == ("2", "'defect'")
        client.call(5, "Missing")
        assert await client.status(5) == ("12", "unknown method Missing for service test.Echo")
        client.call(7, "Echo", p_grpc_encoding="gzip")
        assert (await client.status(7))[0] == "12"
        client.call(9, "Echo", p_grpc_timeout="soon")
        assert await client.status(9) == ("13", 'malformed grpc-timeout: "soon"')
        client.send((frames.HEADERS, END, 11, block_of([(":method", "POST"), (":path", "/other/Echo")])))
        assert (await client.status(11))[0] == "3"

    run(story)


def test_requests_that_are_not_one_message_are_refused() -> None:
    async def story(client: FakeClient) -> None:
        for number, body in ((1, b""), (3, b"\0\0\0\0\x05abc"), (5, message("a") * 2), (7, b"\1" + message("a")[1:])):
            client.send((frames.HEADERS, frames.END_HEADERS, number, request_headers("Echo")))
            client.send((frames.DATA, frames.END_STREAM, number, body))
            assert (await client.status(number))[0] == "13"
        client.send((frames.HEADERS, frames.END_HEADERS, 9, request_headers("Echo")))
        client.send((frames.DATA, 0, 9, b"\0" + (100_001).to_bytes(4, "big")))
        received = await client.frames()
        assert (
            read_block(received[0][3])["grpc-message"] == "grpc: received message larger than max (100001 vs. 100000)"
        )
        assert received[1] == (frames.RESET, 0, 9, frames.NO_ERROR.to_bytes(4, "big"))
        client.call(11, "Echo", "still usable")
        assert await client.status(11) == ("0", "")

    run(story)


def test_a_deadline_ends_a_call_even_before_its_request() -> None:
    async def story(client: FakeClient) -> None:
        client.call(1, "Hang", p_grpc_timeout="2S")
        client.send((frames.HEADERS, frames.END_HEADERS, 3, request_headers("Hang", p_grpc_timeout="2000m")))
        await asyncio.sleep(1.9)
        assert await client.frames() == []
        await asyncio.sleep(0.2)
        trailers = {stream: read_block(block) for kind, _, stream, block in await client.frames() if kind == 1}
        assert trailers[1]["grpc-status"] == trailers[3]["grpc-status"] == "4"
        assert client.cancelled.is_set()

    run(story)


def test_a_reset_cancels_the_call_and_frees_its_place() -> None:
    async def story(client: FakeClient) -> None:
        client.call(1, "Hang")
        client.call(3, "Hang")
        client.call(5, "Echo")
        assert await client.frames() == [(frames.RESET, 0, 5, frames.REFUSED_STREAM.to_bytes(4, "big"))]
        client.send((frames.RESET, 0, 1, frames.CANCEL.to_bytes(4, "big")))
        assert await client.frames() == []
        assert client.cancelled.is_set()
        client.call(7, "Echo")
        assert await client.status(7) == ("0", "")

    run(story)


def test_a_call_that_is_reset_at_once_leaves_nothing() -> None:
    async def story(client: FakeClient) -> None:
        for number in range(1, 41, 2):
            client.send((frames.HEADERS, frames.END_HEADERS, number, request_headers("Hang")))
            client.send((frames.RESET, 0, number, frames.CANCEL.to_bytes(4, "big")))
            await client.frames()
        client.call(41, "Echo")
        assert await client.status(41) == ("0", "")

    run(story)


def test_responses_wait_for_the_windows_of_the_client() -> None:
    async def story(client: FakeClient) -> None:
        client.send((frames.SETTINGS, 0, 0, frames.SETTING.pack(frames.INITIAL_WINDOW, 10)))
        client.call(1, "Echo", "x" * 30)
        client.call(3, "Echo", "y" * 70)
        body = message("x" * 30)
        assert data_of(await client.frames(), 1) == body[:10]
        client.send((frames.WINDOW, 0, 1, (5).to_bytes(4, "big")))
        assert data_of(await client.frames(), 1) == body[10:15]
        client.send((frames.SETTINGS, 0, 0, frames.SETTING.pack(frames.INITIAL_WINDOW, 1_000)))
        received = await client.frames()
        assert data_of(received, 1) == body[15:]
        assert data_of(received, 3) == message("y" * 70)[10:]

    run(story)


def test_responses_wait_for_the_window_of_the_connection_and_for_the_socket() -> None:
    async def story(client: FakeClient) -> None:
        client.send((frames.SETTINGS, 0, 0, frames.SETTING.pack(frames.INITIAL_WINDOW, 1 << 20)))
        text = "z" * 90_000
        client.send((frames.HEADERS, frames.END_HEADERS, 1, request_headers("Echo")))
        body = message(text)
        for at in range(0, len(body), 16_384):
            client.send((frames.DATA, 0, 1, body[at : at + 16_384]))
        client.send((frames.DATA, frames.END_STREAM, 1, b""))
        received = await client.frames()
        assert len(data_of(received, 1)) == 65_535
        client.link.pause_writing()
        assert not client.is_reading
        client.send((frames.WINDOW, 0, 0, (1 << 20).to_bytes(4, "big")))
        assert data_of(await client.frames(), 1) == b""
        client.link.resume_writing()
        assert client.is_reading
        assert len(data_of(await client.frames(), 1)) == len(body) - 65_535

    run(story)


def test_all_requests_together_are_limited() -> None:
    async def story(client: FakeClient) -> None:
        part = b"x" * 16_000
        for number in (1, 3):
            client.send((frames.HEADERS, frames.END_HEADERS, number, request_headers("Echo")))
            client.send((frames.DATA, 0, number, b"\0" + (100_000).to_bytes(4, "big")))
            for _ in range(5):
                client.send((frames.DATA, 0, number, part))
        assert (await client.status(3))[0] == "8"
        client.send((frames.DATA, 0, 1, part), (frames.DATA, frames.END_STREAM, 1, b"x" * 4_000))
        assert (await client.status(1))[0] == "0"

    run(story)


HELLO: Frame = (frames.HEADERS, frames.END_HEADERS, 1, request_headers("Hang"))
VIOLATIONS: dict[str, tuple[int, tuple[Frame, ...]]] = {
    "frame too large": (frames.FRAME_SIZE_ERROR, ((frames.DATA, 0, 1, bytes(16_385)),)),
    "data of the connection": (frames.PROTOCOL_ERROR, ((frames.DATA, 0, 0, b"a"),)),
    "data of no stream": (frames.PROTOCOL_ERROR, ((frames.DATA, 0, 1, b"a"),)),
    "data after the end": (frames.STREAM_CLOSED, (HELLO, (frames.DATA, 1, 1, message("")), (frames.DATA, 0, 1, b"a"))),
    "even stream": (frames.PROTOCOL_ERROR, ((frames.HEADERS, 4, 2, request_headers("Echo")),)),
    "headers twice": (frames.PROTOCOL_ERROR, (HELLO, HELLO)),
    "reset of no stream": (frames.PROTOCOL_ERROR, ((frames.RESET, 0, 1, bytes(4)),)),
    "short reset": (frames.FRAME_SIZE_ERROR, (HELLO, (frames.RESET, 0, 1, bytes(3)))),
    "settings of a stream": (frames.PROTOCOL_ERROR, ((frames.SETTINGS, 0, 1, b""),)),
    "half a setting": (frames.FRAME_SIZE_ERROR, ((frames.SETTINGS, 0, 0, bytes(5)),)),
    "acknowledged settings": (frames.FRAME_SIZE_ERROR, ((frames.SETTINGS, frames.ACK, 0, bytes(6)),)),
    "frame limit": (frames.PROTOCOL_ERROR, ((frames.SETTINGS, 0, 0, frames.SETTING.pack(frames.MAX_FRAME, 1)),)),
    "huge window": (
        frames.FLOW_CONTROL_ERROR,
        ((frames.SETTINGS, 0, 0, frames.SETTING.pack(frames.INITIAL_WINDOW, 2**31)),),
    ),
    "window overflow": (frames.FLOW_CONTROL_ERROR, ((frames.WINDOW, 0, 0, (2**31 - 1).to_bytes(4, "big")),)),
    "window of nothing": (frames.PROTOCOL_ERROR, ((frames.WINDOW, 0, 0, bytes(4)),)),
    "window of no stream": (frames.PROTOCOL_ERROR, ((frames.WINDOW, 0, 9, (1).to_bytes(4, "big")),)),
    "short ping": (frames.FRAME_SIZE_ERROR, ((frames.PING, 0, 0, b"ping"),)),
    "push": (frames.PROTOCOL_ERROR, ((frames.PUSH, 0, 1, bytes(4)),)),
    "continuation of nothing": (frames.PROTOCOL_ERROR, ((frames.CONTINUATION, 4, 1, b""),)),
    "interrupted headers": (frames.PROTOCOL_ERROR, ((frames.HEADERS, 0, 1, b""), (frames.PING, 0, 0, bytes(8)))),
    "long headers": (frames.ENHANCE_YOUR_CALM, ((frames.HEADERS, 4, 1, bytes(1_001)),)),
    "long padding": (frames.PROTOCOL_ERROR, (HELLO, (frames.DATA, frames.PADDED, 1, b"\x03ab"))),
    "bad headers": (frames.COMPRESSION_ERROR, ((frames.HEADERS, 4, 1, b"\xff\xff"),)),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_ends_the_connection_with_goaway(name: str) -> None:
    async def story(client: FakeClient) -> None:
        code, sent = VIOLATIONS[name]
        client.send(*sent)
        last = (await client.frames())[-1]
        assert (last[0], int.from_bytes(last[3][4:8], "big")) == (frames.GOAWAY, code)
        assert client.is_closing()
        assert client.lost

    run(story)


def test_headers_that_unpack_to_more_than_the_limit_are_refused() -> None:
    async def story(client: FakeClient) -> None:
        long = b"\x40" + b"\x01a" + bytes([0x7F, 0x80 | (600 - 127) % 128, (600 - 127) >> 7]) + b"v" * 600
        client.send((frames.HEADERS, END, 1, request_headers("Echo") + long))
        assert (await client.status(1))[0] == "13"  # no message
        client.send((frames.HEADERS, END, 3, request_headers("Echo") + b"\xbe\xbe"))
        assert (await client.status(3))[0] == "8"

    run(story)


def test_pings_are_answered_and_unknown_frames_ignored() -> None:
    async def story(client: FakeClient) -> None:
        client.send((200, 0, 77, b"?"), (frames.PRIORITY, 0, 9, bytes(5)), (frames.PING, 0, 0, b"12345678"))
        assert await client.frames() == [(frames.PING, frames.ACK, 0, b"12345678")]

    run(story)


def test_a_drained_connection_finishes_its_calls_and_accepts_no_others() -> None:
    async def story(client: FakeClient) -> None:
        client.call(1, "Hang", p_grpc_timeout="5S")
        await client.frames()
        client.link.drain()
        client.call(3, "Echo")
        assert [(kind, stream) for kind, _, stream, _ in await client.frames()] == [(frames.GOAWAY, 0)]
        assert not client.is_closing()
        await asyncio.sleep(6)
        assert await client.status(1) == ("4", "context deadline exceeded")
        assert client.lost

    run(story)


def test_a_lost_connection_cancels_its_calls() -> None:
    async def story(client: FakeClient) -> None:
        client.call(1, "Count", "1000000")
        await client.frames()
        client.close()
        await client.frames()
        assert client.cancelled.is_set()
        assert client.lost

    run(story)


def test_a_client_that_does_not_greet_is_left() -> None:
    async def whole() -> None:
        client = FakeClient(greets=False)
        await asyncio.sleep(LIMITS.handshake_seconds - 1)
        assert not client.is_closing()
        await asyncio.sleep(2)
        assert client.is_closing()

    run_virtual(whole())


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", frames.PREFACE + frames.frame_header(frames.PING, 0, 0, 8)]
)
def test_another_protocol_is_refused(data: bytes) -> None:
    async def whole() -> None:
        client = FakeClient(greets=False)
        client.link.data_received(data + bytes(8))
        assert (await client.frames())[-1][0] == frames.GOAWAY
        assert client.lost

    run_virtual(whole())


some_frames = st.tuples(
    st.integers(0, 10), st.integers(0, 255), st.sampled_from((0, 1, 2, 3, 5)), st.binary(max_size=12)
)
good_frames = st.sampled_from(
    (
        HELLO,
        (frames.HEADERS, frames.END_HEADERS, 3, request_headers("Echo")),
        (frames.DATA, frames.END_STREAM, 1, message("a")),
        (frames.DATA, 0, 3, message("a")),
        (frames.RESET, 0, 1, bytes(4)),
        (frames.WINDOW, 0, 1, b"\0\0\0\x01"),
    )
)


@given(st.lists(st.one_of(good_frames, some_frames), max_size=12))
def test_any_frames_are_processed_or_end_the_connection(sent: list[Frame]) -> None:
    async def whole() -> None:
        client = FakeClient()
        for frame in sent:
            if client.is_closing():
                break
            client.send(frame)
            await client.frames()
        client.close()
        await client.frames()
        assert client.lost

    run_virtual(whole())
