# SPDX-License-Identifier: Apache-2.0
"""Tests with invalid protobuf: rejected with the messages of Go's decoders."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.protobuf import ProtobufError, decode_object, encode_object, open_envelope
from tests.unit.api.protobuf.random_messages import sample

KINDS = [("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("apps/v1", "ControllerRevision")]
SCHEMA = ("apiextensions.k8s.io/v1", "JSONSchemaProps")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty data"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\x00", "empty body"),
        (b"k8s\x00\x0a", "unexpected EOF"),
        (b"k8s\x00\x0a\x05ab", "unexpected EOF"),
        (b"k8s\x00\x08\x01", "proto: wrong wireType = 0 for field TypeMeta"),
        (b"k8s\x00\x0f", "proto: illegal wireType 7"),
        (b"k8s\x00\x0c", "proto: Unknown: wiretype end group for non-group"),
        (b"k8s\x00\x02\x00", "proto: Unknown: illegal tag 0 (wire type 2)"),
        (b"k8s\x00" + b"\xff" * 10, "proto: integer overflow"),
        (b"k8s\x00\x0a" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
        (b"k8s\x00\x2b\x08\x01", "unexpected EOF"),
    ],
)
def test_invalid_envelope_is_rejected(body: bytes, why: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        open_envelope(body)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "unknown",
    [b"\xf8\x3f\x01", b"\xfa\x3f\x02ab", b"\xf9\x3f" + bytes(8), b"\xfd\x3f" + bytes(4), b"\xfb\x3f\x0b\x0c\xfc\x3f"],
)
def test_unknown_fields_are_skipped(unknown: bytes) -> None:
    assert decode_object("v1", "Pod", unknown + b"\x0a\x03\x0a\x01a" + unknown)["metadata"] == {"name": "a"}


def test_invalid_utf8_shows_replacement_characters() -> None:
    assert decode_object("v1", "Pod", b"\x0a\x04\x0a\x02a\xff")["metadata"] == {"name": "a\ufffd"}


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0a\x0c\x38" + b"\xff" * 10 + b"\x01",  # metadata.generation
        b"\x0a" + b"\x80" * 10 + b"\x01",  # the length of metadata
        b"\x80" * 10 + b"\x01",  # a tag
        b"\xfb\x3f\x08" + b"\xff" * 10 + b"\x01\xfc\x3f",  # in a group
    ],
)
def test_numbers_of_more_than_64_bits_are_rejected(raw: bytes) -> None:
    with pytest.raises(ProtobufError, match=r"^proto: integer overflow$"):
        decode_object("v1", "Pod", raw)


def test_times_out_of_range_are_rejected() -> None:
    creation = b"\x42\x0a\x08" + b"\xff" * 8 + b"\x7f"
    with pytest.raises(ProtobufError, match="year outside of range"):
        decode_object("v1", "Pod", b"\x0a\x0c" + creation)


def test_invalid_json_in_raw_fields_is_rejected() -> None:
    with pytest.raises(ProtobufError, match="JSON is malformed"):
        decode_object("apps/v1", "ControllerRevision", b"\x12\x04\x0a\x02{]")


def test_deeply_nested_message_is_rejected() -> None:
    raw = b""
    for _ in range(3000):  # each the `not` of the next
        raw = b"\xe2\x01" + _varint(len(raw)) + raw
    with pytest.raises(ProtobufError, match="exceeded max depth"):
        decode_object(*SCHEMA, raw)


def _varint(number: int) -> bytes:
    written = b""
    while number > 0x7F:
        written += bytes([number & 0x7F | 0x80])
        number >>= 7
    return written + bytes([number])


def test_deeply_nested_raw_content_is_rejected() -> None:
    text = b"[" * 5000
    inner = b"\x0a" + _varint(len(text)) + text
    with pytest.raises(ProtobufError):
        decode_object("apps/v1", "ControllerRevision", b"\x12" + _varint(len(inner)) + inner)


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
@given(raw=st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_decoded_or_rejected(api_version: str, kind: str, raw: bytes) -> None:
    _read_or_refuse(b"k8s\x00" + raw)
    try:
        decode_object(api_version, kind, raw)
    except ProtobufError:
        return


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 400), change=st.binary(max_size=3))
@settings(max_examples=50, deadline=None)
def test_corrupt_body_is_decoded_or_rejected(api_version: str, kind: str, seed: int, cut: int, change: bytes) -> None:
    definition = {"Pod": "io.k8s.api.core.v1.Pod", "ControllerRevision": "io.k8s.api.apps.v1.ControllerRevision"}.get(
        kind, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    )
    body = encode_object({"apiVersion": api_version, "kind": kind, **sample(definition, Random(seed))})
    _read_or_refuse(body[:cut] + change + body[cut + len(change) :])
    _read_or_refuse(body[:cut])


def _read_or_refuse(body: bytes) -> None:
    try:
        envelope = open_envelope(body)
        if (envelope.api_version, envelope.kind) in KINDS:
            decode_object(*envelope)
    except ProtobufError:
        return
