# SPDX-License-Identifier: Apache-2.0
"""Tests of the HPACK decoder: the examples of RFC 7541, its limits, and damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.grpc.hpack import BadHeaders, block_of
from kubeloop.grpc.huffman import BadHuffman, decode_huffman
from kubeloop.grpc.server.header_decoder import HeaderDecoder

FIRST = {":method": "GET", ":scheme": "http", ":path": "/", ":authority": "www.example.com"}
THIRD = {
    ":method": "GET",
    ":scheme": "https",
    ":path": "/index.html",
    ":authority": "www.example.com",
    "custom-key": "custom-value",
}


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param(
            ("828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
             "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565"),
            id="plain",
        ),
        pytest.param(
            ("828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf",
             "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"),
            id="huffman",
        ),
    ],
)  # fmt: skip
def test_requests_refer_to_the_headers_of_earlier_ones(blocks: tuple[str, str, str]) -> None:
    decoder = HeaderDecoder()
    first, second, third = (decoder.decode(bytes.fromhex(block)) for block in blocks)
    assert first == FIRST
    assert second == {**FIRST, "cache-control": "no-cache"}
    assert third == THIRD


def test_the_oldest_entries_leave_a_full_table() -> None:
    decoder = HeaderDecoder()
    resized = "3fe101"  # 256 bytes
    decoder.decode(
        bytes.fromhex(
            resized + "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8"
            "e9ae82ae43d3"
        )
    )
    assert decoder.decode(bytes.fromhex("4883640effc1c0bf")) == {
        ":status": "307",
        "cache-control": "private",
        "date": "Mon, 21 Oct 2013 20:13:21 GMT",
        "location": "https://www.example.com",
    }
    with pytest.raises(BadHeaders, match="does not exist"):
        decoder.decode(bytes([0x80 | 66]))  # the status 302, which has left


@pytest.mark.parametrize(
    "block",
    [b"\x80", b"\xbe", b"\x00\x05ab", b"\x40", b"\x00\x01a\x81\x00", b"\x3f\xff\xff\xff\xff\xff\xff", b"\x3f\xe2\x1f",
     b"\x82\x20", b"\x00\x84\xff\xff\xff\xff\x00"],
    ids=["index zero", "no entry", "short", "nothing", "fill of zeros", "number", "table too large", "late resize",
         "no code"],
)  # fmt: skip
def test_invalid_blocks_are_refused(block: bytes) -> None:
    with pytest.raises(BadHeaders):
        HeaderDecoder().decode(block)


def test_sizes_count_each_header() -> None:
    decoder = HeaderDecoder()
    decoder.decode(block_of([("a", "12"), ("b", "")]))
    assert decoder.size == 3 + 32 + 1 + 32


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_headers_or_refused(blocks: list[bytes]) -> None:
    decoder = HeaderDecoder()
    for block in blocks:
        try:
            decoder.decode(block)
        except BadHeaders:
            return


def test_huffman_strings_end_with_ones() -> None:
    assert decode_huffman(bytes.fromhex("a8eb10649cbf")) == b"no-cache"
    with pytest.raises(BadHuffman):
        decode_huffman(bytes.fromhex("a8eb10649cbfff"))  # a whole byte of them is too much
    with pytest.raises(BadHuffman):
        decode_huffman(b"\x00\xfc")
