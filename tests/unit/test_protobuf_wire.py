# SPDX-License-Identifier: Apache-2.0
"""Varints and fields of protobuf, within 64 bits."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.protobuf_wire import (
    ProtobufError,
    bytes_field,
    decode_varint,
    encode_varint,
    integer_field,
    iter_fields,
    read_fields,
    skip_varint,
    to_signed,
)


@given(st.integers(-(2**63), 2**64 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_numbers_round_trip(number: int, before: bytes, behind: bytes) -> None:
    written = encode_varint(number)
    end = len(before) + len(written)
    assert decode_varint(before + written + behind, len(before)) == (number % 2**64, end)
    assert skip_varint(before + written + behind, len(before)) == end
    assert to_signed(number) == (number if number < 2**63 else number - 2**64)


def test_bits_beyond_64_are_dropped_like_go() -> None:
    assert decode_varint(b"\xff" * 9 + b"\x7f", 0) == (2**64 - 1, 10)


@pytest.mark.parametrize("length", [10, 11, 100])
def test_more_than_ten_bytes_are_rejected(length: int) -> None:
    with pytest.raises(ProtobufError, match=r"^proto: integer overflow$"):
        decode_varint(b"\x80" * length + b"\x00", 0)
    with pytest.raises(ProtobufError, match=r"^proto: integer overflow$"):
        skip_varint(b"\x80" * length + b"\x00", 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9])
def test_a_truncated_number_is_refused(data: bytes) -> None:
    with pytest.raises(ProtobufError, match=r"^unexpected EOF$"):
        decode_varint(data, 0)
    with pytest.raises(ProtobufError, match=r"^unexpected EOF$"):
        skip_varint(data, 0)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**64 - 1) | st.binary(max_size=300)), max_size=20))
def test_both_readers_find_the_same_fields(written: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(integer_field(n, v) if isinstance(v, int) else bytes_field(n, v) for n, v in written)
    assert read_fields(data) == written
    assert [(number, content) for number, _, content in iter_fields(data, "M")] == written


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_rejected(data: bytes) -> None:
    for read in (read_fields, lambda data: list(iter_fields(data, "M"))):
        with contextlib.suppress(ProtobufError):
            read(data)
