# SPDX-License-Identifier: Apache-2.0
"""An API server and clients of it, over each transport: what the transports' contract is checked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.requests import WatchEvent
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.cli.pki.files import Pki
from kubeloop.client import Client, connect
from kubeloop.client.config.server_config import Pem
from kubeloop.client.config.server_config import ServerConfig as ClientConfig
from kubeloop.clock import SystemClock
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.store import Store, open_store
from tests.bounds import GIVE_UP_SECONDS

NAMESPACE = "default"
NOBODY = User("nobody", ("system:authenticated",), "1")


class Plane:
    """Server with its store and its users."""

    def __init__(self, store: Store, admin: Client, nobody: Client, port: int = 0) -> None:
        self.store = store
        self.client = admin
        self.nobody = nobody
        self.port = port

    async def config_map(self, name: str, data: dict[str, str] | None = None, **labels: str) -> ConfigMap:
        """Make one, for tests that need something to be there."""
        meta = ObjectMeta(name=name, namespace=NAMESPACE, labels=labels)
        made: ConfigMap = await self.client.create(ConfigMap(metadata=meta, data=data or {}))
        return made

    async def events(self, count: int, **options: Any) -> list[WatchEvent]:
        """The first events of a watch of config maps in our namespace."""
        found: list[WatchEvent] = []
        watch = self.client.watch(ConfigMap, NAMESPACE, **options)
        async for batch in watch:
            found += batch
            if len(found) >= count:
                break
        await watch.aclose()  # type: ignore[attr-defined]  # an async generator
        return found


Scenario = Callable[[Plane], Awaitable[None]]


def play_over_http(scenario: Scenario, pki: Pki, folder: Path) -> None:
    """Run against a started server behind its TLS port."""

    async def main() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS), _http_plane(pki, folder) as plane:
            await scenario(plane)

    asyncio.run(main())


def play_in_process(scenario: Scenario, pki: Pki, folder: Path) -> None:
    """Within the process, in virtual time."""
    loop = VirtualLoop()

    async def main() -> None:
        async with _local_plane(VirtualClock(loop)) as plane:
            await scenario(plane)

    run_virtual(main(), loop=loop)


def config_of_admin(pki: Pki, port: int) -> ClientConfig:
    """Return the administrator's client configuration of a local server."""
    certificate, key = Pem(file=str(pki.admin_certificate)), Pem(data=pki.admin_key.read_bytes())
    return ClientConfig(f"https://127.0.0.1:{port}", Pem(file=str(pki.ca)), certificate=certificate, key=key)


@asynccontextmanager
async def _http_plane(pki: Pki, folder: Path) -> AsyncIterator[Plane]:
    tokens = folder / "tokens.csv"
    tokens.write_text("secret,nobody,1\n")
    config = ApiServerConfig(
        port=0,
        certificate=pki.serving_certificate,
        key=pki.serving_key,
        client_authorities=(pki.ca,),
        token_file=tokens,
    )
    server = await start_server(config, SystemClock())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.close)
        trusted = config_of_admin(pki, server.port)
        admin = connect(trusted, qps=0)
        nobody = connect(ClientConfig(trusted.server, trusted.authority, token="secret"), qps=0)
        for client in (admin, nobody):
            stack.push_async_callback(client.close)
        yield Plane(server.app.registry.store, admin, nobody, server.port)


@asynccontextmanager
async def _local_plane(clock: VirtualClock) -> AsyncIterator[Plane]:
    """Return a second server without listener and background tasks."""
    async with AsyncExitStack() as stack:
        store = open_store("memory")
        await store.start()
        stack.push_async_callback(store.close)
        server = RunningServer(ApiServerConfig(), clock)
        app = await server.start_without_port(store)
        stack.push_async_callback(server.close_now)
        admin = InProcessTransport(app, User("kubernetes-admin", ("system:masters", "system:authenticated")))
        yield Plane(store, Client(admin), Client(InProcessTransport(app, NOBODY)))


PLAYERS = {"http": play_over_http, "local": play_in_process}


def on_both(scenario: Scenario) -> Callable[..., None]:
    """A scenario as a test of each transport."""

    def test(play: Callable[[Scenario], None]) -> None:
        play(scenario)

    return test
