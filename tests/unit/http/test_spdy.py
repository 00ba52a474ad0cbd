# SPDX-License-Identifier: Apache-2.0
"""SPDY/3.1: frames there and back, and the server's end of a connection."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.http.upgrade.spdy import SpdyConnection, SpdyStream
from kubeloop.http.upgrade.spdy_frames import (
    DATA,
    DICTIONARY,
    FIN,
    GOAWAY,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    WINDOW_UPDATE,
    FrameReader,
    FrameWriter,
    SpdyError,
    SpdyFrame,
)
from tests.unit.apiserver.streaming.fake_transport import in_loop


class Wire:
    """Fake transport of a connection."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    async def wait_writable(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class Peer:
    """A client, and the server's end that it is connected to."""

    def __init__(self, refuses: bool = False) -> None:
        self.wire = Wire()
        self.streams: list[SpdyStream] = []
        self.refuses = refuses
        self.server = SpdyConnection(self.wire, self._opened)
        self.writer, self.reader = FrameWriter(), FrameReader()

    def _opened(self, stream: SpdyStream) -> None:
        if self.refuses:
            raise SpdyError("no")
        self.streams.append(stream)

    def heard(self) -> list[SpdyFrame]:
        """Return the frames sent since the last call."""
        sent, self.wire.sent = self.wire.sent, b""
        return list(self.reader.feed(sent))


def test_dictionary_is_the_standard_one() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.text("abcdefg-", min_size=1, max_size=12),
                st.text("abc =;/é", max_size=20),
            ),
            st.binary(max_size=300),
        ),
        max_size=5,
    ),
    st.integers(1, 50),
)
@settings(max_examples=50, deadline=None)
def test_frames_are_reassembled_from_fragments(content: list[tuple[dict[str, str], bytes]], piece: int) -> None:
    writer, reader = FrameWriter(), FrameReader()
    sent, expected = b"", list[SpdyFrame]()
    for index, (headers, data) in enumerate(content):
        number = 2 * index + 1
        sent += writer.syn_stream(number, headers) + writer.data(number, data, fin=True) + writer.ping(number)
        expected += [
            SpdyFrame(SYN_STREAM, number, 0, b"", headers),
            SpdyFrame(DATA, number, FIN, data),
            SpdyFrame(PING, number),
        ]
    pieces = (sent[begin : begin + piece] for begin in range(0, len(sent), piece))
    assert [frame for one in pieces for frame in reader.feed(one)] == expected


@pytest.mark.parametrize(
    "bad",
    [
        b"\x80\x02\x00\x01\x00\x00\x00\x0a" + bytes(10),  # version 2
        b"\x80\x03\x00\x03\x00\x00\x00\x02ab",  # too short
        b"\x80\x03\x00\x01\x00\x00\x00\x0c" + bytes(10) + b"xx",  # headers that are no zlib
        b"\x00\x00\x00\x01\x00\xff\xff\xff",  # far too long
    ],
)
def test_invalid_spdy_closes_the_connection(bad: bytes) -> None:
    peer = Peer()
    peer.server.feed(bad)
    assert peer.wire.closed


def test_oversized_headers_close_the_connection() -> None:
    peer = Peer()
    peer.server.feed(peer.writer.syn_stream(1, {"bomb": "x" * 100_000}))
    assert peer.wire.closed


def test_unknown_frames_are_skipped() -> None:
    peer = Peer()
    peer.server.feed(b"\x80\x03\x00\x63\x00\x00\x00\x01x" + peer.writer.ping(1))
    assert [frame.type for frame in peer.heard()] == [PING]


@in_loop
async def test_streams_are_opened_read_written_and_finished() -> None:
    peer = Peer()
    peer.server.feed(peer.writer.syn_stream(1, {"streamType": "data"}) + peer.writer.data(1, b"hello"))
    (stream,) = peer.streams
    assert stream.headers == {"streamtype": "data"}
    assert await stream.read() == b"hello"
    await stream.write(b"x" * 70_000)
    stream.finish()
    frames = peer.heard()
    assert [frame.type for frame in frames] == [SYN_REPLY, WINDOW_UPDATE, WINDOW_UPDATE, DATA, DATA, DATA]
    assert b"".join(frame.data for frame in frames if frame.type == DATA) == b"x" * 70_000
    assert frames[-1].flags == FIN
    peer.server.feed(peer.writer.data(1, b"", fin=True))
    assert await stream.read() == b""


def test_rejected_or_misnumbered_stream_is_reset() -> None:
    peer = Peer(refuses=True)
    peer.server.feed(peer.writer.syn_stream(1, {}) + peer.writer.syn_stream(2, {}))
    assert [(frame.type, frame.number) for frame in peer.heard()] == [(RST_STREAM, 1), (RST_STREAM, 2)]


@in_loop
async def test_reset_by_the_client_ends_a_stream() -> None:
    peer = Peer()
    peer.server.feed(peer.writer.syn_stream(1, {}) + peer.writer.reset(1, 5))
    assert await peer.streams[0].read() == b""
    peer.heard()
    await peer.streams[0].write(b"nobody hears it")
    assert peer.heard() == []


@in_loop
async def test_goaway_ends_all_streams() -> None:
    peer = Peer()
    peer.server.feed(peer.writer.syn_stream(3, {}))
    peer.server.close()
    assert [frame.type for frame in peer.heard()] == [SYN_REPLY, GOAWAY]
    assert peer.wire.closed
    assert await peer.streams[0].read() == b""


@in_loop
async def test_client_writes_nothing_when_it_receives_data() -> None:
    """The server may have closed the connection after its data: a failed write would lose what is not read yet."""
    wire = Wire()
    client = SpdyConnection(wire)
    stream = client.open({"streamtype": "error"})
    wire.sent = b""
    client.feed(FrameWriter().data(stream.number, b"status", fin=True))
    assert (await stream.read(), wire.sent) == (b"status", b"")
