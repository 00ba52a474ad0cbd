# SPDX-License-Identifier: Apache-2.0
"""Checksums of checkpoints: FNV-1a over a Go value as the library spew prints it (`%#v`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


def fnv32a(text: str) -> int:
    """Return the 32 bit FNV-1a hash of a text."""
    found = _OFFSET
    for byte in text.encode():
        found = (found ^ byte) * _PRIME & _MASK
    return found


def string_checksum(data: str) -> int:
    """Return the checksum of a string."""
    return fnv32a(f"(string){data}")


def go_struct(fields: Mapping[str, tuple[str, str]]) -> str:
    """Return a struct as spew prints it; each field has its type and its printed value."""
    return "{" + " ".join(f"{name}:({kind}){text}" for name, (kind, text) in fields.items()) + "}"


def go_map(entries: Mapping[str, str] | None) -> str:
    """Return a map with sorted keys as spew prints it; None is a nil map."""
    if entries is None:
        return "<nil>"
    return "map[" + " ".join(f"{key}:{entries[key]}" for key in sorted(entries)) + "]"


def go_slice(values: Iterable[str] | None) -> str:
    """Return a slice as spew prints it; None is a nil slice."""
    return "<nil>" if values is None else "[" + " ".join(values) + "]"
