# SPDX-License-Identifier: Apache-2.0
"""Compression of responses."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

_LEVEL = 1  # upstream's level: most of the gain for the least time
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_PIECE = 1 << 20  # zlib releases the GIL only while it compresses, so it gets large pieces

GZIP_HEADERS = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))


def accepts_gzip(accept_encoding: str) -> bool:
    """Return True if the client listed gzip; as upstream, without weights."""
    return any(item.strip() == "gzip" for item in accept_encoding.split(","))


def gzip(parts: Iterable[bytes]) -> list[bytes]:
    """Compress the parts as one gzip member; runs in a worker thread."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    packed: list[bytes] = []
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= _PIECE:
            packed.append(compressor.compress(b"".join(held)))
            held.clear()
            size = 0
    packed.append(compressor.compress(b"".join(held)))
    packed.append(compressor.flush())
    return packed
