# SPDX-License-Identifier: Apache-2.0
"""API server with an extension API server in one event loop, on separate ports."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kubeloop.apiserver.aggregator.lazy import AggregatorConfig
from kubeloop.apiserver.authentication import RequestHeaderConfig
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.run_options import ServerRunOptions
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.apiserver.aggregator.extension_server import GROUP, VERSION, Authority, Gardens, listening

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = f"{VERSION}.{GROUP}"
REQUEST_TIMEOUT = 3.0


class AggregatorHarness:
    """Both servers, and a client of the first."""

    def __init__(self, server: RunningServer, gardens: Gardens, port: int, authority: Authority) -> None:
        self.server = server
        self.gardens = gardens
        self.extension_port = port
        self.authority = authority

    def entry(self, user: User) -> InProcessTransport:
        return InProcessTransport(self.server.app, user)

    async def ask(
        self, path: str, body: Any = None, method: str = "", token: str = "admin-token", **headers: str
    ) -> Response:
        path, _, query = path.partition("?")
        request = Request(method or ("POST" if body is not None else "GET"), path, query, headers)
        request.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request.headers["authorization"] = f"Bearer {token}"
        if body is not None:
            request.headers.setdefault("content-type", "application/json")
            request.body = json.dumps(body).encode()
        return await self.server.app.handle(request)

    async def json(self, path: str, body: Any = None, **more: str) -> Any:
        response = await self.ask(path, body, **more)
        text = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        return json.loads(text)

    async def register(self, **changes: Any) -> None:
        """The Service and the APIService of the gardens."""
        service = {"type": "ExternalName", "externalName": "localhost"}
        await self.json("/api/v1/namespaces/default/services", {"metadata": {"name": "garden-api"}, "spec": service})
        spec = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"name": "garden-api", "namespace": "default", "port": self.extension_port},
            "caBundle": base64.b64encode(self.authority.pem).decode(),
        }
        made = await self.json(API_SERVICES, {"metadata": {"name": NAME}, "spec": spec | changes})
        assert made["kind"] == "APIService", made

    async def condition(self) -> dict[str, str]:
        found = (await self.json(f"{API_SERVICES}/{NAME}")).get("status", {}).get("conditions") or [{}]
        return dict(found[0])

    async def becomes(self, reason: str) -> dict[str, str]:
        """The condition, once its reason is this one."""
        store = self.server.app.registry.store
        watch = store.watch("/registry/apiregistration.k8s.io/", store.revision)
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while (found := await self.condition()).get("reason") != reason:
                await anext(watch)
        watch.cancel()
        return found

    async def available(self) -> None:
        await self.register()
        await self.becomes("Passed")


Scenario = Callable[[AggregatorHarness], Awaitable[None]]


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return ensure_pki(tmp_path / "pki", ["127.0.0.1"], SystemClock().now())


@pytest.fixture
def play(tmp_path: Path, pki: Pki) -> Callable[[Scenario], None]:
    """Run a scenario in a new harness."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('admin-token,admin,1,"system:masters"\nnobody-token,nobody,2\n')

    async def run(scenario: Scenario) -> None:
        authority, gardens = Authority(tmp_path), Gardens()
        aggregator = AggregatorConfig(pki.front_proxy_certificate, pki.front_proxy_key)
        headers = RequestHeaderConfig(
            pki.front_proxy_ca,
            username_headers=("X-My-User", "X-Remote-User"),
            group_headers=("X-My-Group", "X-Remote-Group"),
            extra_prefixes=("X-My-Extra-", "X-Remote-Extra-"),
        )
        config = ApiServerConfig(
            port=0,
            token_file=tokens,
            aggregator=aggregator,
            front_proxy=headers,
            client_authorities=(pki.ca,),
            run_options=ServerRunOptions(request_timeout=REQUEST_TIMEOUT),
        )
        async with listening(gardens, authority.serving("garden-api.default.svc"), pki.front_proxy_ca) as extension:
            server = await start_server(config, SystemClock())
            try:
                await scenario(AggregatorHarness(server, gardens, extension.port, authority))
            finally:
                await server.close_now()

    return lambda scenario: asyncio.run(run(scenario))
