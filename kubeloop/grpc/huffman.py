# SPDX-License-Identifier: Apache-2.0
"""Huffman code of header strings (RFC 7541, appendix B), decoded. Pure.

The code is canonical: codes of one length ascend with the characters, so the lengths tell everything.
"""

from __future__ import annotations

# Length of the code of each byte, two hexadecimal digits each.
_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c"
    "060a0a0c0d06080b0a0a080b080606060505050606060606060607080f060c0a"
    "0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c"
    "141614141616161716171717171718171818161718171717171516171617171816"
    "151416161717151716161815161717151516151716171714161616171616171a1a"
    "1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b1418"
    "1415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a"
)
_LONGEST_FILL = 7  # bits that fill the last byte up, all of them ones


class BadHuffman(ValueError):
    """Raised for bits that are not a sequence of codes."""


def _codes() -> dict[tuple[int, int], int]:
    """Return the byte of each (length, code)."""
    codes: dict[tuple[int, int], int] = {}
    code = last = 0
    for length in sorted(set(_LENGTHS)):
        code <<= length - last
        last = length
        for byte, its_length in enumerate(_LENGTHS):
            if its_length == length:
                codes[length, code] = byte
                code += 1
    return codes


_CODES = _codes()
_LONGEST_CODE = max(_LENGTHS)


def decode_huffman(packed: bytes) -> bytes:
    """Decode a string; raises BadHuffman."""
    decoded = bytearray()
    code = length = 0
    for byte in packed:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            length += 1
            if (found := _CODES.get((length, code))) is not None:
                decoded.append(found)
                code = length = 0
            elif length > _LONGEST_CODE:
                raise BadHuffman("a header has a code that does not exist")
    if length > _LONGEST_FILL or code != (1 << length) - 1:
        raise BadHuffman("a header ends within a code")
    return bytes(decoded)
