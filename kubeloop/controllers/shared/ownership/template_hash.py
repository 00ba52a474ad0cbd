# SPDX-License-Identifier: Apache-2.0
"""Hash of a pod template, used to tell the children of different templates apart. Pure.

Differs from upstream: the same template has another hash, since upstream hashes Go's printed form of the struct.
Neither implementation compares hashes to find out if two templates are equal.
"""

from __future__ import annotations

from typing import Final

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PodTemplateSpec

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels or look-alikes: no accidental words
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def template_hash(template: PodTemplateSpec, collision_count: int | None = None) -> str:
    """Compute the hash of a template; a collision count yields a different hash for the same template."""
    content = codec.encode(template)
    if collision_count is not None:
        content += collision_count.to_bytes(8, "little")
    return safe_text(fnv32a(content))


def fnv32a(content: bytes) -> int:
    """Compute the 32-bit FNV-1a hash, which upstream uses for names."""
    value = _FNV_OFFSET
    for byte in content:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


def safe_text(number: int) -> str:
    """Encode a number in letters and digits that cannot form words."""
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))
