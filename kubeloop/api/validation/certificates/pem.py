"""Blocks of PEM text, found as Go's decoder finds them: what is no block is passed over."""

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
    """One block: what it says it is, whether headers precede its content, and the content."""

    type: str
    has_headers: bool
    content: bytes


def pem_blocks(data: bytes) -> Iterator[Block]:
    """The blocks of a text, in order; one whose content is no base64 is skipped."""
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
