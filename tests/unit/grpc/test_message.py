# SPDX-License-Identifier: Apache-2.0
"""Tests of message structs: their bytes, and what malformed bytes raise."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.grpc.message import GrpcMessage, Unsigned, decode_message, encode_message
from kubeloop.protobuf_wire import ProtobufError, bytes_field, integer_field


class Color(IntEnum):
    RED = 0
    BLUE = 1


class Inner(GrpcMessage, frozen=True, kw_only=True):
    number: Annotated[int, 1] = 0


class Outer(GrpcMessage, frozen=True, kw_only=True):
    text: Annotated[str, 1] = ""
    data: Annotated[bytes, 2] = b""
    flag: Annotated[bool, 3] = False
    signed: Annotated[int, 4] = 0
    unsigned: Annotated[int, Unsigned(5)] = 0
    ratio: Annotated[float, 6] = 0.0
    color: Annotated[Color, 7] = Color.RED
    inner: Annotated[Inner | None, 8] = None
    inners: Annotated[tuple[Inner, ...], 9] = ()
    numbers: Annotated[tuple[int, ...], 10] = ()
    texts: Annotated[tuple[str, ...], 11] = ()
    labels: Annotated[Mapping[str, str], 12] = {}
    by_name: Annotated[Mapping[str, Inner], 200] = {}


INT64 = st.integers(-(2**63), 2**63 - 1)
INNER = st.builds(Inner, number=INT64)
OUTER = st.builds(
    Outer,
    text=st.text(),
    data=st.binary(),
    flag=st.booleans(),
    signed=INT64,
    unsigned=st.integers(0, 2**64 - 1),
    ratio=st.floats(allow_nan=False),
    color=st.sampled_from(Color),
    inner=st.none() | INNER,
    inners=st.lists(INNER, max_size=3).map(tuple),
    numbers=st.lists(INT64, max_size=3).map(tuple),
    texts=st.lists(st.text(), max_size=3).map(tuple),
    labels=st.dictionaries(st.text(), st.text(), max_size=3),
    by_name=st.dictionaries(st.text(), INNER, max_size=3),
)


@given(OUTER)
def test_messages_survive_their_encoding(message: Outer) -> None:
    assert decode_message(Outer, encode_message(message)) == message


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    try:
        decode_message(Outer, data)
    except ProtobufError:
        return


def test_bytes_are_those_of_the_protobuf_encoding() -> None:
    """Written down by hand from the specification of the encoding."""
    message = Outer(text="hi", flag=True, signed=-1, inner=Inner(), numbers=(1, 300), labels={"a": "b"})
    assert encode_message(message) == bytes.fromhex(
        "0a026869"  # text
        "1801"  # flag
        "20ffffffffffffffffff01"  # signed
        "4200"  # inner, which is present and empty
        "520301ac02"  # numbers, packed
        "62060a01611201" + "62"  # labels
    )
    assert encode_message(Outer()) == b""


def test_repeated_numbers_may_be_unpacked() -> None:
    assert decode_message(Outer, integer_field(10, 1) + integer_field(10, 300)).numbers == (1, 300)


def test_last_value_of_a_field_counts() -> None:
    assert decode_message(Outer, bytes_field(1, b"a") + bytes_field(1, b"b")).text == "b"


def test_unknown_fields_and_numbers_of_an_enumeration_are_kept_out() -> None:
    found = decode_message(Outer, integer_field(150, 7) + integer_field(7, 9) + bytes_field(1, b"a"))
    assert (found.text, found.color) == ("a", 9)


@pytest.mark.parametrize(
    "data",
    [
        integer_field(1, 5),  # a number where a text is expected
        bytes_field(3, b"x"),  # and the reverse
        bytes_field(1, b"\xff"),  # not UTF-8
        bytes_field(8, b"\x08"),  # an inner message that ends too early
        b"\x0a\x05ab",
    ],
)
def test_malformed_messages_are_errors(data: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode_message(Outer, data)
