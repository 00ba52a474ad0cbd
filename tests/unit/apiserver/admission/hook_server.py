# SPDX-License-Identifier: Apache-2.0
"""Webhook server over TLS in the test's event loop, with scripted responses."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock

# Response of a path: the `response` of a review, a whole response as (status, body), or an awaitable.
Behaviour = Callable[[dict[str, Any]], Any]


def make_pki(folder: Path, *more_names: str) -> Pki:
    return ensure_pki(folder, ["127.0.0.1", "localhost", "hooks.shop.svc", *more_names], SystemClock().now())


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    """A reply that allows, and changes."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patch": text, "patchType": "JSONPatch"}


class HookServer:
    """`seen` are the requests of all reviews, with the path they came to."""

    def __init__(self, pki: Pki) -> None:
        self.pki = pki
        self.behaviours: dict[str, Behaviour] = {}
        self.seen: list[dict[str, Any]] = []
        self.reviews: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.certificates: list[Any] = []
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pki.serving_certificate, self.pki.serving_key)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(self.pki.ca)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)

    def hang_up(self) -> None:
        """End all connections that clients keep."""
        for writer in self._open:
            writer.transport.abort()

    def client(self, path: str, **more: Any) -> dict[str, Any]:
        """A client config that leads here."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.authority, **more}

    @property
    def authority(self) -> str:
        return base64.b64encode(self.pki.ca.read_bytes()).decode()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while True:
                await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")
        )
        review = json.loads(await reader.readexactly(length))
        target = head.split(" ")[1]
        self.reviews.append(review)
        self.heads.append(head)
        self.certificates.append(writer.get_extra_info("peercert"))
        request = review.get("request", review)  # other reviews than those of admission have none
        self.seen.append({**request, "target": target})
        said = self.behaviours[target.partition("?")[0]](request)
        if asyncio.iscoroutine(said):
            said = await said
        status, body = said if isinstance(said, tuple) else (200, _whole(review, said))
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        writer.write(body)
        await writer.drain()


def _whole(review: dict[str, Any], response: dict[str, Any]) -> bytes:
    told = {"uid": review["request"]["uid"], **response}
    return json.dumps({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": told}).encode()
