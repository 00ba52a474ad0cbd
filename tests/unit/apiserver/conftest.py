# SPDX-License-Identifier: Apache-2.0
"""In-memory API server, called in process, with a manual clock."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.app import ApiServer, ApiServerDependencies
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens, token_keys
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request
from kubeloop.store.memory import MemoryStore

ADMIN = User("admin", ("system:masters", "system:authenticated"), "7", (("team", ("a", "b")),))
NOBODY = User("nobody", ("system:authenticated",))
ISSUER = "https://kubernetes.default.svc"
SIGNING_KEY = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
TYPES = {
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ManualClock:
    """Noon, until time is moved on."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self.time = datetime(2026, 5, 10, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def random(self) -> random.Random:
        return self._random

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Api:
    """A client of the server that waits for every answer."""

    def __init__(self, runner: asyncio.Runner, clock: ManualClock) -> None:
        self._runner = runner
        self.clock = clock
        self.store = MemoryStore()
        self.registry = StorageRegistry(self.store, RESOURCES)
        keys = token_keys(SIGNING_KEY)
        self.sign = keys.signing.sign
        self.tokens = ServiceAccountTokens(keys, (ISSUER, "https://before"), (ISSUER, "second"), self.registry, clock)
        self.server = self._serve()
        runner.run(self.store.start())

    def _serve(self) -> ApiServer:
        return ApiServer(
            ApiServerDependencies(
                self.registry,
                self.clock,
                Authenticator({"admin": ADMIN, "nobody": NOBODY}),
                self.admission(),
                InFlightLimiter(10, 100),
                HealthChecks({}, {}),
                lambda: "127.0.0.1:6443",
                self.tokens,
            )
        )

    def admission(self) -> AdmissionChain:
        """Return no plugins by default."""
        return AdmissionChain()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self._runner.run(self._answer(method, path, body, headers))

    def post_at_once(self, posts: list[tuple[str, Any]]) -> list[Answer]:
        """Several clients at the same time."""

        async def everything() -> list[Answer]:
            return await asyncio.gather(*(self._answer("POST", path, body, {}) for path, body in posts))

        return self._runner.run(everything())

    async def _answer(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        path, _, query = path.partition("?")
        request = Request(method, path, query)
        request.headers = {"authorization": f"Bearer {headers.pop('token', 'admin')}"}
        request.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            request.headers.setdefault("content-type", "application/json")
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._send(request)

    def send(self, request: Request) -> Answer:
        """Send a request that a test has made."""
        return self._runner.run(self._send(request))

    async def _send(self, request: Request) -> Answer:
        response = await self.server.handle(request)
        raw = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        is_json = response.content_type == "application/json" and raw
        return Answer(response.status, json.loads(raw) if is_json else raw, dict(response.headers))

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask("POST", path, body, **headers)

    def put(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask("PUT", path, body, **headers)

    def patch(self, kind: str, path: str, body: Any) -> Answer:
        return self.ask("PATCH", path, body, content_type=TYPES[kind])

    def made(self, path: str, body: Any) -> Any:
        """A new object; its creation must succeed."""
        answer = self.post(path, body)
        assert answer.status == 201, answer.body
        return answer.body


@pytest.fixture
def api() -> Iterator[Api]:
    with asyncio.Runner() as runner:
        yield Api(runner, ManualClock())


POD_SPEC = {"containers": [{"name": "c", "image": "nginx"}]}


@pytest.fixture
def pods(api):
    """Creates pods in the namespace `shop`, and returns their paths."""

    def make(name: str, labels: dict[str, str] | None = None, status: Any = None, **spec: Any) -> str:
        metadata = {"name": name, "labels": labels or {}}
        api.made("/api/v1/namespaces/shop/pods", {"metadata": metadata, "spec": {**POD_SPEC, **spec}})
        path = f"/api/v1/namespaces/shop/pods/{name}"
        if status:
            assert api.patch("merge", f"{path}/status", {"status": status}).status == 200
        return path

    return make
