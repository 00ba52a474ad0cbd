"""Splits a stream of bytes into lines of text."""

from __future__ import annotations

from collections.abc import AsyncIterator

# A line longer than this is given out in parts: a log without line ends must not fill our memory.
_MAX_LINE = 1 << 20


async def lines_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield each line without its end; bytes that are not UTF-8 become replacement characters."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        while len(rest) > _MAX_LINE:
            cut = _before_character(rest, _MAX_LINE)
            yield rest[:cut].decode("utf-8", "replace")
            rest = rest[cut:]
    if rest:
        yield rest.decode("utf-8", "replace")


def _before_character(text: bytes, at: int) -> int:
    """Return the nearest position at or before `at` where a character begins."""
    for back in range(4):
        if text[at - back] & 0xC0 != 0x80:
            return at - back
    return at
