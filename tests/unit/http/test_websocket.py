# SPDX-License-Identifier: Apache-2.0
"""The server's end of a WebSocket, against frames made by hand."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.http.upgrade.websocket import WebSocket, choose_protocol, handshake_headers, wants_websocket

MASK = b"\x01\xfe\x80\x33"


class FakeTransport:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True


class Peer:
    """A client with an open WebSocket to the server."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ends = 0
        self.wire = FakeTransport()
        self.socket = WebSocket(self.heard.append, self._ended)
        self.socket.take_over(cast(asyncio.Transport, self.wire), b"")

    def _ended(self) -> None:
        self.ends += 1


def frame(payload: bytes, opcode: int = 2, *, final: bool = True, masked: bool = True) -> bytes:
    length = len(payload)
    if length < 126:
        size = bytes([length | (0x80 if masked else 0)])
    elif length < 1 << 16:
        size = bytes([126 | 0x80]) + length.to_bytes(2, "big")
    else:
        size = bytes([127 | 0x80]) + length.to_bytes(8, "big")
    body = bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload)) if masked else payload
    return bytes([(0x80 if final else 0) | opcode]) + size + (MASK if masked else b"") + body


def test_handshake_response_follows_the_standard() -> None:
    headers = {
        "upgrade": "WebSocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-protocol": "v9.channel.k8s.io, v5.channel.k8s.io",
    }
    assert wants_websocket(headers)
    assert not wants_websocket({**headers, "upgrade": "SPDY/3.1"})
    assert choose_protocol(headers, ("v5.channel.k8s.io",)) == "v5.channel.k8s.io"
    assert choose_protocol({}, ("v5.channel.k8s.io",)) == ""
    assert dict(handshake_headers(headers, "p"))["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@given(messages=st.lists(st.binary(max_size=300), max_size=5), cut=st.integers(1, 7))
@settings(max_examples=40)
def test_messages_are_reassembled_from_fragments(messages: list[bytes], cut: int) -> None:
    peer = Peer()
    data = b"".join(frame(message) for message in messages)
    for begin in range(0, len(data), cut):
        peer.socket.data_received(data[begin : begin + cut])
    assert peer.heard == messages


def test_fragmented_message_may_be_interleaved_with_a_ping() -> None:
    peer = Peer()
    peer.socket.data_received(frame(b"one ", final=False) + frame(b"?", 9) + frame(b"two", 0))
    assert peer.heard == [b"one two"]
    assert peer.wire.sent == b"\x8a\x01?"


@pytest.mark.parametrize(("length", "head"), [(5, b"\x82\x05"), (200, b"\x82\x7e\x00\xc8"), (70000, b"\x82\x7f")])
def test_sent_frames_have_their_length(length: int, head: bytes) -> None:
    peer = Peer()
    asyncio.run(peer.socket.send(b"x" * length))
    assert peer.wire.sent.startswith(head)
    assert peer.wire.sent.endswith(b"x" * length)


def test_close_is_answered_and_reported_once() -> None:
    peer = Peer()
    peer.socket.data_received(frame(b"\x03\xe8", 8))
    peer.socket.connection_lost(None)
    peer.socket.close()
    assert peer.wire.sent == b"\x88\x02\x03\xe8"
    assert (peer.ends, peer.wire.closed) == (1, True)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"x", masked=False), 1002),
        (frame(b"x", 5), 1002),
        (frame(b"x" * (5 << 20)), 1009),
    ],
)
def test_protocol_violation_closes_the_connection(data: bytes, code: int) -> None:
    peer = Peer()
    peer.socket.data_received(data)
    assert peer.wire.sent == b"\x88\x02" + code.to_bytes(2, "big")
    assert peer.heard == []
