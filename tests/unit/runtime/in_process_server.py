# SPDX-License-Identifier: Apache-2.0
"""A whole API server in the test's own process, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.requests import Call
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.app import ApiServer, ApiServerDependencies
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import User
from kubeloop.client.client import Client
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.store import Store
from kubeloop.store.memory import MemoryStore

T = TypeVar("T")


def resource(plural: str, group: str = "") -> Resource:
    return next(one for one in RESOURCES if one.plural == plural and one.group == group)


class InProcess(InProcessTransport):
    """The server's entrance as a client's transport, without what these tests have no use for."""

    async def document(self, path: str) -> Any:
        raise NotImplementedError

    def stream(self, call: Call) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class Server:
    """The server, its store, its time, and the few calls that tests make."""

    def __init__(self, loop: VirtualLoop, store: Store, seed: int = 0) -> None:
        self.loop = loop
        self.store = store
        self.clock = VirtualClock(loop, seed=seed)
        self._registry = registry = StorageRegistry(store, RESOURCES)
        app = ApiServer(
            ApiServerDependencies(
                registry,
                self.clock,
                Authenticator({}),
                AdmissionChain(),
                InFlightLimiter(200, 1000),
                HealthChecks({}, {}),
                lambda: "x",
            )
        )
        self.transport = InProcess(app, User("admin", ("system:masters",)))
        self.client = Client(self.transport)

    def drop_watches(self, kind: Resource) -> None:
        """End all watches of a resource, as a server that restarts does."""
        self._registry.storage_of(kind).hub.close()

    async def create(self, kind: Resource, obj: Any) -> Any:
        return await self.client.create(obj)

    async def patch(self, kind: Resource, namespace: str, name: str, patch: Any) -> Any:
        return await self.client.patch(kind, name, patch, namespace)

    async def delete(self, kind: Resource, namespace: str, name: str) -> Any:
        return await self.client.delete(kind, name, namespace)


def play(scenario: Callable[[Server], Awaitable[T]], seed: int = 0) -> T:
    """Run a scenario on a fresh server."""
    loop = VirtualLoop()

    async def main() -> T:
        store = MemoryStore()
        await store.start()
        try:
            return await scenario(Server(loop, store, seed))
        finally:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    return run_virtual(main(), loop=loop)
