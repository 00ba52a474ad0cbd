# SPDX-License-Identifier: Apache-2.0
"""Responses read from bytes, however they are cut."""

from __future__ import annotations

import gc
import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.http.client import FailureKind, InvalidRequestHead, ResponseReader, encode_request

OK = b"HTTP/1.1 200 OK\r\n"
UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"


def begun(*, decompress: bool = False, may_upgrade: bool = False, has_body: bool = True) -> ResponseReader:
    reader = ResponseReader(decompress=decompress, may_upgrade=may_upgrade)
    reader.begin(has_body=has_body)
    return reader


def fed(*pieces: bytes, reader: ResponseReader | None = None) -> ResponseReader:
    """A reader that took the pieces without complaint."""
    reader = reader or begun()
    for piece in pieces:
        assert reader.feed(piece) is None
    return reader


def status_of(reader: ResponseReader) -> int:
    assert reader.head is not None
    return reader.head.status


@pytest.mark.parametrize(
    "response",
    [
        OK + b"Content-Length: 5\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-Trailer: 1\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello",
    ],
    ids=["sized", "chunked with a trailer", "after an interim response"],
)
@given(data=st.data())
@settings(max_examples=25)
def test_response_does_not_depend_on_chunk_boundaries(response: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(response)), max_size=6)))
    bounds = zip([0, *cuts], [*cuts, len(response)], strict=True)
    reader = fed(*[response[begin:end] for begin, end in bounds if begin < end])
    assert (status_of(reader), reader.take(), reader.is_complete, reader.keep_alive) == (200, b"hello", True, True)
    assert reader.head is not None
    assert not {"link", "x-trailer"} & set(reader.head.headers)


@pytest.mark.parametrize("status", [204, 304])
def test_status_without_a_body_is_complete_immediately(status: int) -> None:
    reader = fed(f"HTTP/1.1 {status} X\r\n\r\n".encode())
    assert (reader.is_complete, reader.keep_alive) == (True, True)


def test_a_response_to_head_is_complete_and_ends_the_connection() -> None:
    reader = fed(OK + b"Content-Length: 5\r\n\r\n", reader=begun(has_body=False))
    assert (reader.is_complete, reader.keep_alive, reader.take()) == (True, False, b"")


def test_reader_reads_sequential_responses() -> None:
    reader = fed(OK + b"X-A: 1\r\nContent-Length: 5\r\n\r\nhello")
    reader.begin()
    assert (reader.head, reader.is_complete, reader.received) == (None, False, 0)
    fed(b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", reader=reader)
    assert (status_of(reader), reader.take(), reader.is_complete) == (404, b"no", True)
    assert reader.head is not None
    assert "x-a" not in reader.head.headers


def test_connection_close_is_honored() -> None:
    assert not fed(OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n").keep_alive


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = fed(OK + b"\r\nhel", b"lo")
    assert not reader.is_complete
    assert reader.end(None).kind is FailureKind.CLOSED
    assert (reader.is_complete, reader.keep_alive, reader.take()) == (True, False, b"hello")


@pytest.mark.parametrize(
    ("received", "kind"),
    [
        ((), FailureKind.CLOSED),
        ((OK,), FailureKind.CLOSED),
        ((OK + b"Content-Length: 5\r\n\r\nhel",), FailureKind.CUT_OFF),
        ((OK + b"Content-Length: 5\r\n\r\nhello",), FailureKind.CLOSED),
    ],
    ids=["before", "in the head", "in the body", "after"],
)
def test_truncated_response_is_reported(received: tuple[bytes, ...], kind: FailureKind) -> None:
    reset = ConnectionResetError(104, "Connection reset by peer")
    assert fed(*received).end(reset) == (kind, "", reset)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", FailureKind.NOT_HTTP),
        (OK + b"X: " + b"y" * (256 << 10), FailureKind.HEAD_TOO_LARGE),
        (OK + b"Content-Length: 0\r\n\r\n" + OK, FailureKind.UNREQUESTED),
        (UPGRADE, FailureKind.UNREQUESTED),
        (OK + b"Content-Length: 1\r\nContent-Encoding: br\r\n\r\nx", FailureKind.UNREQUESTED),
        (OK + b"Content-Length: 1\r\nContent-Encoding: gzip\r\n\r\nx", FailureKind.BROKEN_ENCODING),
    ],
    ids=["another protocol", "a long head", "two responses", "an upgrade", "an encoding", "no gzip"],
)
def test_unrequested_encodings_and_data_are_errors(response: bytes, kind: FailureKind) -> None:
    failure = begun(decompress=True).feed(response)
    assert failure is not None
    assert failure.kind is kind


@pytest.mark.parametrize("decompress", [True, False])
def test_a_body_is_decompressed_only_on_request(decompress: bool) -> None:
    packed = gzip.compress(b"hello")
    head = OK + f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    reader = fed(head, packed[:4], packed[4:], reader=begun(decompress=decompress))
    assert reader.take() == (b"hello" if decompress else packed)


def test_upgrade_keeps_the_following_bytes() -> None:
    reader = fed(UPGRADE + b"\x80\x03", reader=begun(may_upgrade=True))
    assert (status_of(reader), reader.is_complete, reader.keep_alive, reader.early) == (101, True, False, b"\x80\x03")


def test_a_head_has_headers_by_name_and_as_sent() -> None:
    head = fed(OK + b"Set-Cookie: a\r\nset-cookie: b\xff\r\nContent-Length: 0\r\n\r\n").head
    assert head is not None
    assert head.headers["set-cookie"] == "a, b\udcff"
    assert head.fields == (("Set-Cookie", "a"), ("set-cookie", "b\ufffd"), ("Content-Length", "0"))


def test_request_has_a_content_length_if_it_may_have_a_body() -> None:
    assert encode_request("GET", "/a", (("Host", "h"),)) == b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
    assert encode_request("POST", "/", ()) == b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    assert encode_request("DELETE", "/", (), b"x") == b"DELETE / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "a\r", "a\0"])
def test_a_line_break_in_a_header_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequestHead, match="the value of header X-A contains a line break"):
        encode_request("GET", "/", (("X-A", value),))


@pytest.mark.parametrize("rest", [b"hello", b"hel"], ids=["complete", "cut off"])
def test_a_finished_reader_is_freed_without_a_collection(rest: bytes) -> None:
    reader = fed(OK + b"Content-Length: 5\r\n\r\n" + rest)
    reader.end(None)
    gc.collect()
    gc.disable()
    try:
        del reader
        assert not any(isinstance(one, ResponseReader) for one in gc.get_objects())
    finally:
        gc.enable()
