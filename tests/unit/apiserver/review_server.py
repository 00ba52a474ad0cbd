# SPDX-License-Identifier: Apache-2.0
"""A webhook for reviews, over real TLS with client certificates, and the kubeconfig file that leads to it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve


def status_of(**status: Any) -> Callable[[dict[str, Any]], Response]:
    """An answer with the review's own kind and this status."""

    def answer(review: dict[str, Any]) -> Response:
        return Response(200, json.dumps({**review, "status": status}).encode())

    return answer


class ReviewServer:
    """Answers reviews by `answer`; `reviews` and `requests` are what it got."""

    def __init__(self, folder: Path) -> None:
        self.pki: Pki = ensure_pki(folder / "pki", ["127.0.0.1"], SystemClock().now())
        self.kubeconfig = folder / "webhook.yaml"
        self.reviews: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.answer: Callable[[dict[str, Any]], Response] = status_of()
        self._server: HttpServer | None = None

    async def __aenter__(self) -> ReviewServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pki.serving_certificate, self.pki.serving_key)
        context.load_verify_locations(self.pki.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._server = await serve(self._handle, "127.0.0.1", 0, context, HttpLimits(), SystemClock())
        self.write_kubeconfig()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await self._server.close(1.0)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"https://127.0.0.1:{self._server.port}/review"

    def write_kubeconfig(self, **user: Any) -> None:
        certificate = {"client-certificate": str(self.pki.admin_certificate), "client-key": str(self.pki.admin_key)}
        cluster = {"server": self.url, "certificate-authority": str(self.pki.ca)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user or certificate}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(yaml.safe_dump(document))

    async def _handle(self, request: Request) -> Response:
        review = json.loads(request.body)
        self.requests.append(request)
        self.reviews.append(review)
        return self.answer(review)
