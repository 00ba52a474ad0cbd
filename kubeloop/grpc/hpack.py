# SPDX-License-Identifier: Apache-2.0
"""HPACK header blocks (RFC 7541) for a gRPC client: stateless, so that equal headers have equal blocks.

We request a dynamic table of size zero, so that a block depends on nothing received before, and each of the few
different blocks that a server sends is parsed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from kubeloop.grpc.huffman import BadHuffman, decode_huffman

# The static table's entries with a status; of all others the name does not matter to us.
_STATUSES = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}
_STATUS = ":status"
_STATIC_ENTRIES = 61
_MOST_SHIFT = 28  # of a number: it has at most 35 bits


class BadHeaders(ValueError):
    """Header block that is invalid or needs a dynamic table."""


def block_of(headers: Iterable[tuple[str, str]]) -> bytes:
    """Encode headers as literals."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in headers)


@lru_cache(maxsize=256)
def read_block(block: bytes) -> Mapping[str, str]:
    """Decode a header block."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(block):
            name, value, at = _field(block, at)
            if name:
                found[name] = value
    except IndexError:
        raise BadHeaders("a header block ends within a header") from None
    return MappingProxyType(found)


def _field(block: bytes, at: int) -> tuple[str, str, int]:
    """Return (name, value, next position); the name is empty for a table size update, which stays zero."""
    first = block[at]
    if first & 0x80:
        index, at = read_number(block, at, 7)
        _refuse_dynamic(index)
        return _name(index), _STATUSES.get(index, ""), at
    if first & 0xE0 == 0x20:
        return "", "", read_number(block, at, 5)[1]
    index, at = read_number(block, at, 6 if first & 0x40 else 4)
    _refuse_dynamic(index)
    if index:
        name = _name(index)
    else:
        name, at = read_text(block, at)
    value, at = read_text(block, at)
    return name, value, at


def _refuse_dynamic(index: int) -> None:
    if index > _STATIC_ENTRIES:
        raise BadHeaders("the server refers to a dynamic header table, which was disabled")


def _name(index: int) -> str:
    return _STATUS if index in _STATUSES else f"static-{index}"


def read_number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Decode a number that begins in the last bits of a byte; returns it and its end."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    shift = 0
    while shift <= _MOST_SHIFT:
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
    raise BadHeaders("a header block has a number that is too large")


def _text(text: str) -> bytes:
    encoded = text.encode("ascii")
    if len(encoded) < 0x7F:
        return bytes([len(encoded)]) + encoded
    rest, out = len(encoded) - 0x7F, bytearray(b"\x7f")
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out) + encoded


def read_text(block: bytes, at: int) -> tuple[str, int]:
    """Decode a string; returns it and its end."""
    packed = block[at] & 0x80
    length, at = read_number(block, at, 7)
    end = at + length
    if end > len(block):
        raise BadHeaders("a header block ends within a header")
    text = block[at:end]
    try:
        return (decode_huffman(text) if packed else text).decode("latin-1"), end
    except BadHuffman as error:
        raise BadHeaders(str(error)) from None
