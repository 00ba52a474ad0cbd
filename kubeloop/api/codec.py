# SPDX-License-Identifier: Apache-2.0
"""Codec between JSON wire bytes and structs: one decoder per type, one encoder for all."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from kubeloop.api.scalars import wire

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder(enc_hook=str)  # quantities and times are strings of a named type

encode = _ENCODER.encode
force_setattr = msgspec.structs.force_setattr
decode_hook = wire.decode_hook


@cache
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a struct class; it skips unknown fields."""
    return msgspec.json.Decoder(kind, dec_hook=wire.decode_hook)


def decode(data: bytes, kind: type[T]) -> T:
    """Decode an object from wire bytes."""
    decoder: msgspec.json.Decoder[T] = decoder_of(kind)  # type: ignore[arg-type]  # classes are hashable
    return decoder.decode(data)


def to_plain(obj: Any) -> Any:
    """Convert an object to plain dicts and lists, as they appear on the wire."""
    return msgspec.json.decode(encode(obj))


def from_plain(value: Any, kind: type[T]) -> T:
    """Convert plain dicts and lists to an object of a struct class."""
    return decode(encode(value), kind)
