# SPDX-License-Identifier: Apache-2.0
"""`/kubeloop/snapshot`: the whole store as one file, whatever its backend.

Only administrators may request it, unless a rule names the path: it contains Secrets.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Final

from kubeloop.api import errors
from kubeloop.http import Request, Response, ResponseStream, StreamResponse, encode_chunk
from kubeloop.store import Store

_TYPE: Final = "application/vnd.sqlite3"
_PIECE_BYTES: Final = 1 << 20


async def snapshot_response(store: Store, request: Request) -> Response:
    """Stream a snapshot of one revision that includes everything acknowledged before the request."""
    if request.method != "GET":
        raise errors.generic_server_response(405)
    await store.wait_current()
    with tempfile.TemporaryDirectory(prefix="kubeloop-") as folder:
        path = Path(folder) / "snapshot"
        await store.snapshot(str(path))
        file = path.open("rb")  # unlinked from here on: it disappears with its last reader
    return _Snapshot(file)


class _Snapshot(StreamResponse):
    __slots__ = ("_file",)

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(200, content_type=_TYPE)
        self._file = file

    async def run(self, stream: ResponseStream) -> None:
        async with aclosing(_pieces(self._file)) as pieces:
            async for piece in pieces:
                if stream.closed:
                    return
                stream.write(encode_chunk(piece))
                await stream.wait_drained()


async def _pieces(file: BinaryIO) -> AsyncGenerator[bytes, None]:
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
