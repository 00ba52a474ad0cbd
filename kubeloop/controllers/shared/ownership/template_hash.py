"""A short name for what a pod template says, to tell the children of one template from those of another. Pure.

Differs from upstream: the same template has another hash, since upstream's is made of Go's way to print a struct.
Neither compares hashes to find out whether two templates are equal.
"""

from __future__ import annotations

from typing import Final

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PodTemplateSpec

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels or look-alikes: no accidental words
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def template_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """The hash of a template; a collision count makes another one of the same template."""
    content = codec.encode(template)
    if collision_count is not None:
        content += collision_count.to_bytes(8, "little")
    return safe_text(fnv32a(content))


def fnv32a(content: bytes) -> int:
    """FNV-1a of 32 bits: small, and what upstream's names are made with."""
    value = _FNV_OFFSET
    for byte in content:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


def safe_text(number: int) -> str:
    """A number as letters and digits that make no words."""
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))
