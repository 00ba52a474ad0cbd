"""A whole API server in the test's own process, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kubeloop.api.calls import MERGE_PATCH, Call
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.admission import Chain
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.context import User
from kubeloop.apiserver.entry import LocalEntry
from kubeloop.apiserver.health import Health
from kubeloop.apiserver.inflight import InFlight
from kubeloop.apiserver.storage import Registry
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.store import Store
from kubeloop.store.memory import MemoryStore

T = TypeVar("T")


def resource(plural: str, group: str = "") -> Resource:
    return next(one for one in RESOURCES if one.plural == plural and one.group == group)


class Server:
    """The server, its store, its time, and the few calls that tests make."""

    def __init__(self, loop: VirtualLoop, store: Store, seed: int = 0) -> None:
        self.loop = loop
        self.store = store
        self.clock = VirtualClock(loop, seed=seed)
        registry = Registry(store, RESOURCES)
        app = ApiServer(
            registry, self.clock, Authenticator({}), Chain(), InFlight(200, 1000), Health({}, {}), lambda: "x"
        )
        self.entry = LocalEntry(app, User("admin", ("system:masters",)))

    async def create(self, kind: Resource, obj: Any) -> Any:
        return await self.entry.call(Call(verb="create", resource=kind, namespace=obj.metadata.namespace, body=obj))

    async def patch(self, kind: Resource, namespace: str, name: str, patch: Any) -> Any:
        call = Call(verb="patch", resource=kind, namespace=namespace, name=name, body=patch, patch_type=MERGE_PATCH)
        return await self.entry.call(call)

    async def delete(self, kind: Resource, namespace: str, name: str) -> Any:
        return await self.entry.call(Call(verb="delete", resource=kind, namespace=namespace, name=name))


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
