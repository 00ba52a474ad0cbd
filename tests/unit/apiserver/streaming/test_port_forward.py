# SPDX-License-Identifier: Apache-2.0
"""Tests of port forwarding over all client protocols."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import ForwardFailed, PortConnection
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.streaming.port_forward import PortForwarder, forward_response, ports_of
from kubeloop.http import Request, UpgradeResponse
from kubeloop.http.upgrade.spdy_frames import DATA, FIN, RST_STREAM, FrameReader, FrameWriter, SpdyFrame
from tests.unit.apiserver.streaming.fake_transport import FakeTransport, in_loop, masked, unmasked

FAILURE = b"error forwarding port 81 to pod abc, uid : connection refused"


async def connect(port: int, connection: PortConnection) -> None:
    """Echoes each piece with its port as prefix; port 81 is closed."""
    if port == 81:
        raise ForwardFailed("connection refused")
    while data := await connection.read():
        await connection.write(b"%d:%b" % (port, data))


def opened(headers: dict[str, str], query: str = "") -> FakeTransport:
    request = Request("GET", "/", query, headers)
    request.upgrade = True
    answer = forward_response(request, PortForwarder(connect, "abc", ""))
    assert isinstance(answer, UpgradeResponse)
    wire = FakeTransport()
    wire.headers = dict(answer.headers)
    answer.take_over(cast(asyncio.Transport, wire), b"")
    return wire


def websocket(protocol: str, query: str = "") -> FakeTransport:
    headers = {"upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "x"}
    return opened({**headers, "sec-websocket-protocol": protocol}, query)


def pair(writer: FrameWriter, first: int, port: int, request: str = "") -> bytes:
    """The two streams of a connection."""
    named = {"requestID": request} if request else {}
    error = writer.syn_stream(first, {"streamType": "error", "port": str(port), **named}, fin=True)
    return error + writer.syn_stream(first + 2, {"streamType": "data", "port": str(port), **named})


def stream_data(frames: list[SpdyFrame], number: int) -> bytes:
    return b"".join(frame.data for frame in frames if frame.type == DATA and frame.number == number)


async def until_quiet() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("request_id", ["7", ""])
@in_loop
async def test_spdy_port_forward_uses_pairs_of_streams(request_id: str) -> None:
    wire = opened({"upgrade": "SPDY/3.1", "x-stream-protocol-version": "portforward.k8s.io"})
    writer = FrameWriter()
    wire.receive(pair(writer, 1, 80, request_id) + writer.data(3, b"hello"))
    await until_quiet()
    wire.receive(writer.data(3, b"", fin=True))
    await until_quiet()
    frames = list(FrameReader().feed(wire.sent))
    assert stream_data(frames, 3) == b"80:hello"
    assert [frame.number for frame in frames if frame.type == DATA and frame.flags & FIN] == [3, 1]


@in_loop
async def test_spdy_can_be_tunneled_through_a_websocket() -> None:
    wire = websocket("SPDY/3.1+portforward.k8s.io")
    assert wire.headers["Sec-WebSocket-Protocol"] == "SPDY/3.1+portforward.k8s.io"
    writer = FrameWriter()
    sent = pair(writer, 1, 80, "0") + writer.data(3, b"hello")
    wire.receive(masked(sent[:20]) + masked(sent[20:]))
    await until_quiet()
    inner = b"".join(data for _, data in unmasked(wire.sent))
    assert stream_data(list(FrameReader().feed(inner)), 3) == b"80:hello"


@in_loop
async def test_refused_port_is_reported_and_its_streams_are_reset() -> None:
    wire = opened({"upgrade": "SPDY/3.1", "x-stream-protocol-version": "portforward.k8s.io"})
    writer = FrameWriter()
    wire.receive(pair(writer, 1, 81, "0") + pair(writer, 5, 80, "1") + writer.data(7, b"x"))
    await until_quiet()
    frames = list(FrameReader().feed(wire.sent))
    assert stream_data(frames, 1) == FAILURE
    assert {frame.number for frame in frames if frame.type == RST_STREAM} == {1, 3}
    assert stream_data(frames, 7) == b"80:x"


@in_loop
async def test_streams_without_port_or_type_are_rejected() -> None:
    wire = opened({"upgrade": "SPDY/3.1", "x-stream-protocol-version": "portforward.k8s.io"})
    writer = FrameWriter()
    for number, headers in enumerate(({"streamType": "data"}, {"streamType": "odd", "port": "80"})):
        wire.receive(writer.syn_stream(2 * number + 1, headers))
    assert [frame.type for frame in FrameReader().feed(wire.sent)] == [RST_STREAM, RST_STREAM]


@in_loop
async def test_websocket_port_forward_has_two_channels_per_port() -> None:
    wire = websocket("v4.channel.k8s.io", "ports=80&ports=81")
    await until_quiet()
    wire.receive(masked(b"\x00hello"))
    await until_quiet()
    sent = [data for _, data in unmasked(wire.sent)]
    assert sent[:4] == [b"\x00P\x00", b"\x01P\x00", b"\x02Q\x00", b"\x03Q\x00"]
    assert set(sent[4:]) == {b"\x0080:hello", b"\x03" + FAILURE}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", 'query parameter "port" is required'),
        ("ports=x", 'unable to parse "x" as a port'),
        ("ports=0", 'port "0" must be > 0'),
        ("ports=70000", 'unable to parse "70000" as a port'),
    ],
)
def test_invalid_ports_are_rejected(query: str, message: str) -> None:
    with pytest.raises(errors.BadRequest, match=message):
        ports_of(Query(query))


def test_several_ports_in_one_parameter() -> None:
    assert ports_of(Query("port=80,443&port=8080")) == [80, 443, 8080]
