"""When an answer is compressed, and the compression itself."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

_LEVEL = 1  # upstream's: most of the gain for the least time
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_PIECE = 1 << 20  # zlib frees the interpreter only while it compresses, so it is given large pieces

GZIP_HEADERS = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the client listed gzip; like upstream, without weights."""
    return any(item.strip() == "gzip" for item in accept_encoding.split(","))


def gzip(parts: Iterable[bytes]) -> list[bytes]:
    """The parts as one gzip member; meant for a thread of its own."""
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
