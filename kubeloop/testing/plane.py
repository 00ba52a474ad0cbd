# SPDX-License-Identifier: Apache-2.0
"""API server within the process: complete except for a port.

The bootstrap objects are created once per process. Later planes start from their stored bytes, which takes a
millisecond instead of thirty.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import cache
from typing import NamedTuple

from kubeloop.api.features.resource_config import parse_resource_config
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.background.compaction import Compactor
from kubeloop.apiserver.background.event_expiry import EventExpiry
from kubeloop.apiserver.background.periodic import PeriodicJob
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, RunningServer
from kubeloop.client.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers import serviceaccount
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.store.memory import MemoryStore

CONFIG = ApiServerConfig()


class StoredRecord(NamedTuple):
    """Key and value of a store record."""

    key: str
    value: bytes


# Records to start with, or the store that the cluster is a fork of.
InitialRecords = tuple[StoredRecord, ...] | MemoryStore


async def start_plane(
    clock: Clock,
    records: InitialRecords,
    parts: AsyncExitStack,
    config: ApiServerConfig = CONFIG,
    *,
    accounts: bool = True,
) -> ApiServer:
    """Start a server whose store has these records, is another's fork, or is bootstrapped. The stack stops it.

    With `accounts` the controller runs that gives each namespace its service account.
    """
    store = records.fork() if isinstance(records, MemoryStore) else MemoryStore()
    await store.start()
    parts.push_async_callback(store.close)
    if records and not isinstance(records, MemoryStore):
        await asyncio.wait([store.write(one.key, one.value, 0) for one in records])
    server = RunningServer(config, clock)
    app = await server.start_without_port(store, complete=bool(records))
    parts.push_async_callback(server.close_now)
    _start_housekeeping(app, clock, parts)
    if accounts:
        _make_accounts(app, clock, parts)
    return app


def _start_housekeeping(app: ApiServer, clock: Clock, parts: AsyncExitStack) -> None:
    store = app.registry.store
    expiry = EventExpiry(store, clock, CONFIG.event_ttl)
    parts.callback(expiry.close)
    expiry.start()
    parts.callback(PeriodicJob(CONFIG.compaction_interval, Compactor(store).compact).cancel)


def _make_accounts(app: ApiServer, clock: Clock, parts: AsyncExitStack) -> None:
    """Start the service account controller: no pod can be created without a service account."""
    client = Client(InProcessTransport(app, User("system:kube-controller-manager", ("system:masters",))))
    informers = SharedInformerFactory(client, clock)
    loop = serviceaccount.wire(
        ControllerContext(client, informers, clock, EventRecorder(client, serviceaccount.NAME, clock))
    )
    informers.start()
    parts.push_async_callback(informers.stop)
    parts.push_async_callback(_end, asyncio.ensure_future(loop.run()))


async def _end(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


@cache
def config_of(runtime_config: str, feature_gates: str) -> ApiServerConfig:
    """Return a server configuration with runtime config and feature gates."""
    return ApiServerConfig(resource_config=parse_resource_config([runtime_config], [feature_gates]))


# No cluster's own: uids that a test's objects get must not be those of the objects that were there before.
_OWN_SEED = 0x0B1EC75


@cache
def bootstrap_objects(config: ApiServerConfig = CONFIG) -> tuple[StoredRecord, ...]:
    """Return the bootstrap objects (namespaces, roles, default accounts, …) of a first start.

    Runs an event loop, so it must be called where none runs.
    """
    loop = VirtualLoop()

    async def make() -> tuple[StoredRecord, ...]:
        async with AsyncExitStack() as parts:
            app = await start_plane(VirtualClock(loop, seed=_OWN_SEED), (), parts, config)
            await loop.settle()
            records = app.registry.store.range("").records
            return tuple(StoredRecord(one.key, one.value) for one in sorted(records, key=lambda one: one.mod_revision))

    return run_virtual(make(), loop=loop)
