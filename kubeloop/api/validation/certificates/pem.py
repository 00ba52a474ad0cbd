# SPDX-License-Identifier: Apache-2.0
"""PEM blocks, found as Go's decoder does: text outside of blocks is skipped."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(
    rb"(?:^|\n)-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)(?:^|\n)-----END \1-----[ \t\r]*(?=\n|$)", re.DOTALL
)
_HEADER: Final = re.compile(rb"[^\n]*:[^\n]*\n?")


class Block(NamedTuple):
    """PEM block: its type, the presence of headers, and its content."""

    type: str
    has_headers: bool
    content: bytes


def pem_blocks(data: bytes) -> Iterator[Block]:
    """Yield the blocks of a text in order; one with invalid base64 is skipped."""
    for match in _BLOCK.finditer(data):
        body = match[2].lstrip(b"\n")
        has_headers = False
        while header := _HEADER.match(body):
            has_headers, body = True, body[header.end() :]
        try:
            content = base64.b64decode(b"".join(body.split()), validate=True)
        except binascii.Error:
            continue
        yield Block(match[1].decode(errors="replace"), has_headers, content)
