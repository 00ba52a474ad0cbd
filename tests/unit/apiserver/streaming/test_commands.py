# SPDX-License-Identifier: Apache-2.0
"""Tests of commands over all client protocols, with a scripted command."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any, cast

import pytest

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import StandardStreams, TerminalSize
from kubeloop.apiserver.streaming.commands import command_response
from kubeloop.apiserver.streaming.sessions import Run, StreamOptions
from kubeloop.http import Request, UpgradeResponse
from kubeloop.http.upgrade.spdy_frames import DATA, FrameReader, FrameWriter
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.apiserver.streaming.fake_transport import FakeTransport, in_loop, masked, unmasked

ALL = StreamOptions(stdin=True, stdout=True, stderr=True, tty=False)
TERMINAL = StreamOptions(stdin=True, stdout=True, stderr=False, tty=True)


async def echo_upper(streams: StandardStreams) -> int:
    """Echoes input in upper case, writes one error, and fails."""
    while data := await streams.read():
        await streams.write(data.upper())
    await streams.write_error(b"that was all")
    return 3


async def succeed(streams: StandardStreams) -> int:
    return 0


async def break_down(streams: StandardStreams) -> int:
    raise RuntimeError("no such thing")


def websocket(protocol: str, options: StreamOptions, run: Run) -> FakeTransport:
    headers = {"upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "x"}
    return opened({**headers, "sec-websocket-protocol": protocol} if protocol else headers, options, run)


def spdy(protocol: str, options: StreamOptions, run: Run) -> FakeTransport:
    return opened({"upgrade": "SPDY/3.1", "x-stream-protocol-version": protocol}, options, run)


def opened(headers: dict[str, str], options: StreamOptions, run: Run) -> FakeTransport:
    request = Request("POST", "/", "", headers)
    request.upgrade = True
    answer = command_response(request, options, run, "error executing command in container")
    assert isinstance(answer, UpgradeResponse)
    wire = FakeTransport()
    wire.headers = dict(answer.headers)
    answer.take_over(cast(asyncio.Transport, wire), b"")
    return wire


async def messages(wire: FakeTransport) -> list[bytes]:
    """Return the frames sent until the connection closed, without the close frame."""
    await wire.until_closed()
    return [data for opcode, data in unmasked(wire.sent) if opcode != 8]


EXIT_3 = {
    "metadata": {},
    "status": "Failure",
    "message": "command terminated with non-zero exit code: exit status 3",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}


@in_loop
async def test_v5_protocol_supports_closing_stdin() -> None:
    wire = websocket("v5.channel.k8s.io", ALL, echo_upper)
    wire.receive(masked(b"\x00one ") + masked(b"\x00two") + masked(b"\xff\x00"))
    greeting, *said, status = await messages(wire)
    assert wire.headers["Sec-WebSocket-Protocol"] == "v5.channel.k8s.io"
    assert greeting == b"\x01"
    assert said == [b"\x01ONE ", b"\x01TWO", b"\x02that was all"]
    assert (status[0], json.loads(status[1:])) == (3, EXIT_3)


@in_loop
async def test_v4_text_protocol_is_base64() -> None:
    wire = websocket("v4.base64.channel.k8s.io", ALL, succeed)
    greeting, status = await messages(wire)
    assert greeting == b"1"
    assert status[:1] == b"3"
    assert json.loads(base64.b64decode(status[1:])) == {"metadata": {}, "status": "Success"}


@pytest.mark.parametrize("protocol", ["channel.k8s.io", ""])
@in_loop
async def test_v1_protocol_reports_failures_as_text(protocol: str) -> None:
    assert await messages(websocket(protocol, ALL, succeed)) == [b"\x01"]
    failure = b"\x03Internal error occurred: error executing command in container: no such thing"
    assert await messages(websocket(protocol, ALL, break_down)) == [b"\x01", failure]


@in_loop
async def test_terminal_size_changes_are_sent() -> None:
    sizes: list[TerminalSize | None] = []

    async def look(streams: StandardStreams) -> int:
        await streams.read()
        sizes.append(streams.size)
        await streams.write_error(b"at a terminal all is output")
        return 0

    wire = websocket("v5.channel.k8s.io", TERMINAL, look)
    wire.receive(
        masked(b'\x04{"Width":80,"Height":24}\n{"Width":120,') + masked(b'\x04"Height":40}\n') + masked(b"\x00x")
    )
    assert (await messages(wire))[1] == b"\x01at a terminal all is output"
    assert sizes == [TerminalSize(120, 40)]


@in_loop
async def test_command_ends_when_the_client_disconnects() -> None:
    ended = asyncio.Event()

    async def wait(streams: StandardStreams) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return 0

    wire = websocket("v5.channel.k8s.io", ALL, wait)
    await asyncio.sleep(0)
    wire.lose()
    await asyncio.wait_for(ended.wait(), GIVE_UP_SECONDS)


def test_unsupported_protocols_are_rejected() -> None:
    with pytest.raises(errors.BadRequest, match="unable to negotiate a subprotocol"):
        websocket("v9.channel.k8s.io", ALL, succeed)
    with pytest.raises(errors.Forbidden, match=r"client supports \[v9.k8s.io\], server accepts \[v4.channel.k8s.io"):
        spdy("v9.k8s.io", ALL, succeed)
    with pytest.raises(errors.BadRequest, match="header X-Stream-Protocol-Version does not exist"):
        opened({"upgrade": "SPDY/3.1"}, ALL, succeed)
    with pytest.raises(errors.BadRequest, match="missing upgrade headers"):
        opened({"upgrade": "h2c"}, ALL, succeed)


class SpdyClient:
    """Opens streams and records the data by type."""

    def __init__(self, wire: FakeTransport, *types: str) -> None:
        self.wire = wire
        self.writer = FrameWriter()
        self.numbers = {type: 2 * index + 1 for index, type in enumerate(types)}
        wire.receive(
            b"".join(self.writer.syn_stream(number, {"streamType": type}) for type, number in self.numbers.items())
        )

    def send(self, type: str, data: bytes, *, fin: bool = False) -> None:
        self.wire.receive(self.writer.data(self.numbers[type], data, fin=fin))

    async def heard(self) -> dict[str, bytes]:
        await self.wire.until_closed()
        types = {number: type for type, number in self.numbers.items()}
        said: dict[str, bytes] = dict.fromkeys(self.numbers, b"")
        for frame in FrameReader().feed(self.wire.sent):
            if frame.type == DATA:
                said[types[frame.number]] += frame.data
        return said


@in_loop
async def test_spdy_command_has_separate_streams() -> None:
    wire = spdy("v4.channel.k8s.io, v3.channel.k8s.io", ALL, echo_upper)
    assert wire.headers["X-Stream-Protocol-Version"] == "v4.channel.k8s.io"
    client = SpdyClient(wire, "error", "stdin", "stdout", "stderr")
    client.send("stdin", b"one ")
    client.send("stdin", b"two", fin=True)
    said = await client.heard()
    assert (said["stdout"], said["stderr"], json.loads(said["error"])) == (b"ONE TWO", b"that was all", EXIT_3)


@in_loop
async def test_older_spdy_versions_report_failures_as_text() -> None:
    wire = spdy("v2.channel.k8s.io", ALL, echo_upper)
    client = SpdyClient(wire, "error", "stdin", "stdout", "stderr")
    client.send("stdin", b"", fin=True)
    assert (await client.heard())["error"] == b"command terminated with non-zero exit code: exit status 3"


@in_loop
async def test_spdy_terminal_has_a_resize_stream() -> None:
    sizes: list[Any] = []

    async def look(streams: StandardStreams) -> int:
        while streams.size is None:  # noqa: ASYNC110  # a stream of its own brings it, and nothing tells
            await asyncio.sleep(0)
        sizes.append(streams.size)
        return 0

    client = SpdyClient(spdy("v4.channel.k8s.io", TERMINAL, look), "error", "stdin", "stdout", "resize")
    client.send("resize", b'{"Width":80,"Height":24}\n')
    await client.heard()
    assert sizes == [(80, 24)]
