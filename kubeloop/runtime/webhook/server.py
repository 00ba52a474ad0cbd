"""HTTPS server for admission webhooks: one path per hook.

async def no_latest(review: Review) -> None:
    if any(one["image"].endswith(":latest") for one in review.object["spec"]["containers"]):
        raise Denied("pin the image's version")

async with serving({"/pods": no_latest}, certificate, key, port=8443):
    ...
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httptools
import msgspec

from kubeloop.api.scalars.duration import parse_duration
from kubeloop.runtime.webhook.review import AdmissionDenied, Hook, InvalidReview, Review, read_review, review_response

__all__ = ["AdmissionDenied", "Hook", "Review", "respond", "serve_webhooks"]

MAX_BODY: Final = 8 * 2**20  # an object and its predecessor, of at most three MiB each
MAX_HEAD: Final = 64 * 2**10
IDLE_SECONDS: Final = 120.0  # API servers keep their connections for the next review
REQUEST_SECONDS: Final = 30.0  # to receive one
HOOK_SECONDS: Final = 10.0  # upstream's default, where the server doesn't say
_NANOSECONDS: Final = 1e9

log = logging.getLogger(__name__)

WebhookAnswer = tuple[HTTPStatus, bytes]


async def respond(hooks: Mapping[str, Hook], method: str, url: str, body: bytes) -> WebhookAnswer:
    """Answer one request. A hook that fails is an error, and the webhook's failure policy decides."""
    where = urlsplit(url)
    if where.path == "/healthz":
        return HTTPStatus.OK, b"ok"
    hook = hooks.get(where.path)
    if hook is None:
        return HTTPStatus.NOT_FOUND, b"no hook at this path"
    if method != "POST":
        return HTTPStatus.METHOD_NOT_ALLOWED, b"reviews are posted"
    try:
        async with asyncio.timeout(_seconds(where.query)):
            return HTTPStatus.OK, msgspec.json.encode(await review_response(read_review(body), hook))
    except InvalidReview as error:
        return HTTPStatus.BAD_REQUEST, str(error).encode()
    except Exception as error:
        log.exception("the hook at %s failed", where.path)
        return HTTPStatus.INTERNAL_SERVER_ERROR, f"the hook failed: {type(error).__name__}: {error}".encode()


def _seconds(query: str) -> float:
    """Return the API server's timeout from the query `timeout=10s`."""
    said = parse_qs(query).get("timeout", [""])[0]
    try:
        return parse_duration(said) / _NANOSECONDS if said else HOOK_SECONDS
    except ValueError:
        return HOOK_SECONDS


@asynccontextmanager
async def serve_webhooks(
    hooks: Mapping[str, Hook], certificate: Path, key: Path, *, host: str = "0.0.0.0", port: int = 8443
) -> AsyncIterator[int]:
    """Serve until the block ends; yields the port, which matters if 0 was requested."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(certificate, key)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_WebhookConnection(hooks, reader, writer).run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # wait_closed() would, from Python 3.12 on, wait for clients that do not finish a TLS handshake or shutdown.


class _WebhookConnection:
    """Connection with requests one after the other, and the parser's callbacks."""

    def __init__(self, hooks: Mapping[str, Hook], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._hooks = hooks
        self._reader = reader
        self._writer = writer
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def _begin(self) -> None:
        self._url = b""
        self._body = b""
        self._received = 0
        self._is_complete = False

    async def run(self) -> None:
        try:
            while await self._receive():
                status, body = await respond(
                    self._hooks, self._parser.get_method().decode(), self._url.decode("latin-1"), self._body
                )
                keep = self._parser.should_keep_alive()
                await self._send(status, body, keep)
                if not keep:
                    return
                self._begin()
        except (httptools.HttpParserError, OSError, TimeoutError) as error:
            log.debug("a connection ended: %s", error)
        finally:
            self._writer.close()

    async def _receive(self) -> bool:
        """Read one whole request; return False when no more come, or it is too large."""
        limit = IDLE_SECONDS
        while not self._is_complete:
            async with asyncio.timeout(limit):
                data = await self._reader.read(2**16)
            self._received += len(data)
            if not data:
                return False
            if self._received > MAX_BODY + MAX_HEAD:
                await self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"too large", keep=False)
                return False
            self._parser.feed_data(data)
            limit = REQUEST_SECONDS
        return True

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise ValueError("a request came before the last one was answered")

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._is_complete = True

    async def _send(self, status: HTTPStatus, body: bytes, keep: bool) -> None:
        kind = "application/json" if status == HTTPStatus.OK and body[:1] == b"{" else "text/plain; charset=utf-8"
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        ending = "\r\n" if keep else "Connection: close\r\n\r\n"
        self._writer.write((head + ending).encode() + body)
        await self._writer.drain()
