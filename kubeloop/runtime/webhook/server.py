# SPDX-License-Identifier: Apache-2.0
"""HTTPS server for admission webhooks: one path per hook.

async def no_latest(review: Review) -> None:
    if any(one["image"].endswith(":latest") for one in review.object["spec"]["containers"]):
        raise AdmissionDenied("pin the image's version")

async with serve_webhooks({"/pods": no_latest}, certificate, key, port=8443):
    ...
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import msgspec

from kubeloop.api.scalars.duration import parse_duration
from kubeloop.clock import SystemClock
from kubeloop.http import HttpLimits, Request, Response, serve
from kubeloop.runtime.webhook.review import AdmissionDenied, Hook, InvalidReview, Review, read_review, review_response

__all__ = ["AdmissionDenied", "Hook", "Review", "respond", "serve_webhooks"]

MAX_BODY: Final = 8 * 2**20  # an object and its predecessor, of at most three MiB each
HOOK_SECONDS: Final = 10.0  # upstream's default, where the server doesn't say
_NANOSECONDS: Final = 1e9
_TEXT: Final = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)

_LIMITS: Final = HttpLimits(
    head_bytes=64 << 10,
    body_bytes=MAX_BODY,
    head_timeout=30.0,
    body_timeout=30.0,
    idle_timeout=120.0,  # API servers keep their connections for the next review
)


async def respond(hooks: Mapping[str, Hook], request: Request) -> Response:
    """Answer one request. A hook that fails is an error, and the webhook's failure policy decides."""
    if request.path == "/healthz":
        return Response(200, b"ok", _TEXT)
    hook = hooks.get(request.path)
    if hook is None:
        return Response(404, b"no hook at this path", _TEXT)
    if request.method != "POST":
        return Response(405, b"reviews are posted", _TEXT)
    try:
        async with asyncio.timeout(_seconds(request.query)):
            return Response(200, msgspec.json.encode(await review_response(read_review(request.body), hook)))
    except InvalidReview as error:
        return Response(400, str(error).encode(), _TEXT)
    except Exception as error:
        log.exception("the hook at %s failed", request.path)
        return Response(500, f"the hook failed: {type(error).__name__}: {error}".encode(), _TEXT)


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
    server = await serve(partial(respond, hooks), host, port, tls, _LIMITS, SystemClock())
    try:
        yield server.port
    finally:
        await server.close(grace=0)
