# SPDX-License-Identifier: Apache-2.0
"""A bare keep-alive connection: as little client cost as Python allows, so that the server is what is measured."""

from __future__ import annotations

import asyncio
import ssl

_READ_BYTES = 2**24


class Connection:
    """Connection with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=_READ_BYTES))

    async def call(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
        """The answer's body; raises for an answer that is no success."""
        await self._send(method, path, body, kind)
        status, head = await self._head()
        length = head.partition(b"content-length: ")[2].partition(b"\r")[0]
        answer = await self._reader.readexactly(int(length)) if length else await self._chunks()
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return answer

    async def watch(self, path: str) -> asyncio.StreamReader:
        """The stream behind an answer's head."""
        await self._send("GET", path, b"", "application/json")
        status, _ = await self._head()
        assert status == 200, path
        return self._reader

    def close(self) -> None:
        self._writer.close()

    async def _send(self, method: str, path: str, body: bytes, kind: str) -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\n"
        self._writer.write(f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await self._writer.drain()

    async def _head(self) -> tuple[int, bytes]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        return int(head[9:12]), head

    async def _chunks(self) -> bytes:
        parts = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readuntil(b"\r\n")
        return b"".join(parts)
