# SPDX-License-Identifier: Apache-2.0
"""HPACK decoder (RFC 7541) with a dynamic table: clients may use one before they have read our settings."""

from __future__ import annotations

from collections import deque

from kubeloop.grpc.hpack import BadHeaders, read_number, read_text

TABLE_BYTES = 4_096  # the protocol's initial limit of the dynamic table, which we leave as it is
_ENTRY_BYTES = 32  # of each entry, besides name and value
_STATIC = (
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *((name, "") for name in (
        "accept-language", "accept-ranges", "accept", "access-control-allow-origin", "age", "allow", "authorization",
        "cache-control", "content-disposition", "content-encoding", "content-language", "content-length",
        "content-location", "content-range", "content-type", "cookie", "date", "etag", "expect", "expires", "from",
        "host", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "last-modified",
        "link", "location", "max-forwards", "proxy-authenticate", "proxy-authorization", "range", "referer", "refresh",
        "retry-after", "server", "set-cookie", "strict-transport-security", "transfer-encoding", "user-agent", "vary",
        "via", "www-authenticate",
    )),
)  # fmt: skip


class HeaderDecoder:
    """Decodes the header blocks of one peer. `size` of the last block: its headers, as the protocol counts them."""

    def __init__(self) -> None:
        self.size = 0
        self._entries: deque[tuple[str, str]] = deque()  # the newest is the first
        self._entries_bytes = 0
        self._most_bytes = TABLE_BYTES

    def decode(self, block: bytes) -> dict[str, str]:
        """Decode a header block; raises BadHeaders. Of headers with one name, the first counts."""
        found: dict[str, str] = {}
        self.size = at = 0
        try:
            while at < len(block):
                if block[at] & 0xE0 == 0x20:
                    at = self._resize(block, at, is_first=not self.size)
                    continue
                name, value, at = self._field(block, at)
                self.size += len(name) + len(value) + _ENTRY_BYTES
                found.setdefault(name, value)
        except IndexError:
            raise BadHeaders("a header block ends within a header") from None
        return found

    def _field(self, block: bytes, at: int) -> tuple[str, str, int]:
        first = block[at]
        if first & 0x80:
            index, at = read_number(block, at, 7)
            return *self._entry(index), at
        index, at = read_number(block, at, 6 if first & 0x40 else 4)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = read_text(block, at)
        value, at = read_text(block, at)
        if first & 0x40:
            self._add(name, value)
        return name, value, at

    def _entry(self, index: int) -> tuple[str, str]:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        if not 0 < index <= len(_STATIC) + len(self._entries):
            raise BadHeaders("a header refers to an entry that does not exist")
        return self._entries[index - len(_STATIC) - 1]

    def _add(self, name: str, value: str) -> None:
        self._entries.appendleft((name, value))
        self._entries_bytes += len(name) + len(value) + _ENTRY_BYTES
        self._evict()

    def _resize(self, block: bytes, at: int, *, is_first: bool) -> int:
        size, at = read_number(block, at, 5)
        if size > TABLE_BYTES or not is_first:
            raise BadHeaders("the size of the header table is changed to a value, or at a place, that is not allowed")
        self._most_bytes = size
        self._evict()
        return at

    def _evict(self) -> None:
        while self._entries_bytes > self._most_bytes:
            name, value = self._entries.pop()
            self._entries_bytes -= len(name) + len(value) + _ENTRY_BYTES
