# SPDX-License-Identifier: Apache-2.0
"""Domain names in wire form: length-prefixed labels up to the root, in lower case where they are keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubeloop.dns.wire.constants import MAX_LABEL_SIZE, MAX_NAME_SIZE

ROOT = b"\0"
_POINTER = 0xC0
_SPECIAL = frozenset(b'."\\();@$')


class DnsFormatError(ValueError):
    """Message or name that violates the wire format."""


def encode_name(text: str) -> bytes:
    """Return the wire form of a name without escapes, with or without the final dot. Raises `DnsFormatError`."""
    labels = text.removesuffix(".").split(".") if text not in ("", ".") else []
    try:
        return join_labels([label.encode("ascii") for label in labels])
    except UnicodeEncodeError:
        raise DnsFormatError(f"the name {text!r} is not ASCII") from None


def join_labels(labels: Iterable[bytes]) -> bytes:
    """Return the wire form of a sequence of labels. Raises `DnsFormatError`."""
    parts: list[bytes] = []
    for label in labels:
        if not 0 < len(label) <= MAX_LABEL_SIZE:
            raise DnsFormatError(f"a label has {len(label)} bytes, not 1 to {MAX_LABEL_SIZE}")
        parts += (bytes((len(label),)), label)
    name = b"".join((*parts, ROOT))
    if len(name) > MAX_NAME_SIZE:
        raise DnsFormatError(f"a name has {len(name)} bytes, more than {MAX_NAME_SIZE}")
    return name


def split_labels(name: bytes) -> Sequence[bytes]:
    """Return the labels of a name in wire form."""
    labels = []
    at = 0
    while size := name[at]:
        labels.append(name[at + 1 : at + 1 + size])
        at += 1 + size
    return labels


def name_text(name: bytes) -> str:
    """Return the text form of a name, with special bytes escaped and a final dot."""
    return "".join(f"{_label_text(label)}." for label in split_labels(name)) or "."


def _label_text(label: bytes) -> str:
    return "".join(
        f"\\{chr(byte)}" if byte in _SPECIAL else chr(byte) if 0x20 < byte < 0x7F else f"\\{byte:03d}" for byte in label
    )


def is_below(name: bytes, parent: bytes) -> bool:
    """Return True if a name is another one or below it; both in lower case."""
    if not name.endswith(parent):
        return False
    at, start = 0, len(name) - len(parent)
    while at < start:
        at += 1 + name[at]
    return at == start


def read_name(data: bytes, start: int) -> tuple[bytes, int]:
    """Read a name that may be compressed; returns it in wire form, and the offset after it.

    A pointer must point before the name or the pointer that it continues, so that every chain ends.
    """
    parts: list[bytes] = []
    size, at, end, limit = 1, start, -1, start
    while True:
        if at >= len(data):
            raise DnsFormatError("a name ends after the message")
        length = data[at]
        if length == 0:
            parts.append(ROOT)
            return b"".join(parts), at + 1 if end < 0 else end
        if length <= MAX_LABEL_SIZE:
            size += 1 + length
            if at + 1 + length > len(data) or size > MAX_NAME_SIZE:
                raise DnsFormatError("a label ends after the message, or the name is too long")
            parts.append(data[at : at + 1 + length])
            at += 1 + length
            continue
        if length < _POINTER or at + 2 > len(data):
            raise DnsFormatError("a label has an unknown form")
        target = (length & 0x3F) << 8 | data[at + 1]
        if target >= limit:
            raise DnsFormatError("a compression pointer does not point backwards")
        end = at + 2 if end < 0 else end
        at = limit = target
