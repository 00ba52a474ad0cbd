# SPDX-License-Identifier: Apache-2.0
"""Two `kubeloop up` on one etcd: one of them runs the loops and the scheduler, and the other one stands by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.up import election
from kubeloop.cli.up.controllers import RunningControllers, start_controllers
from kubeloop.cli.up.scheduler import RunningScheduler, start_scheduler
from kubeloop.client import Client
from kubeloop.clock import SystemClock
from kubeloop.runtime.leaderelection.leader_elector import LeaseDurations
from kubeloop.store.etcd.client import Unavailable
from tests.bounds import GIVE_UP_SECONDS
from tests.contract.stores import EtcdSupply

LEASES = ("kube-controller-manager", "kube-scheduler")


class Plane:
    """Components of `kubeloop up` that may affect another plane."""

    def __init__(self, server: RunningServer, loops: RunningControllers, scheduler: RunningScheduler) -> None:
        self.client = Client(InProcessTransport(server.app, User("admin", ("system:masters",))))
        self.parts = (loops.part, scheduler.component)

    def leads(self) -> list[bool]:
        return [part.election is None or part.election.elector.is_leader for part in self.parts]

    async def make_pods(self, name: str) -> None:
        """Returns when the loops have made them."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        about = {"name": name, "namespace": "default"}
        await self.client.create(msgspec.convert({"metadata": about, "spec": spec}, Deployment))
        await until(lambda: self._has_pods(name))

    async def _has_pods(self, name: str) -> bool:
        pods = (await self.client.list(Pod, "default", labels=f"app={name}")).items
        assert len(pods) <= 2, "nobody makes what the other one has made"
        return len(pods) == 2


async def until(condition: Callable[[], object]) -> None:
    while True:
        found = condition()
        if await found if asyncio.iscoroutine(found) else found:
            return
        await asyncio.sleep(0.02)


@asynccontextmanager
async def plane(store: str, pki: Pki) -> AsyncIterator[Plane]:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        server = await started(ApiServerConfig(store=store, port=0))
        stack.push_async_callback(server.close)
        loops = await start_controllers(server.app, pki, clock, 0)
        stack.push_async_callback(loops.close)
        scheduler = await start_scheduler(server.app, pki, clock, 0)
        stack.push_async_callback(scheduler.close)
        yield Plane(server, loops, scheduler)


async def started(config: ApiServerConfig) -> RunningServer:
    while True:
        try:
            return await start_server(config, SystemClock())
        except Unavailable:  # an etcd that was started only just now
            continue


def test_one_plane_leads_and_the_other_takes_over_after_losing_a_lease(
    etcd_servers: EtcdSupply, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election, "TERMS", LeaseDurations(1.5, 1.0, 0.1))
    monkeypatch.setattr(election, "_DRAIN_SECONDS", 0.1)

    async def main(url: str) -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS), AsyncExitStack() as ending, AsyncExitStack() as staying:
            one = await ending.enter_async_context(plane(url, pki))
            await until(lambda: all(one.leads()))
            two = await staying.enter_async_context(plane(url, pki))
            await two.make_pods("shared")
            assert (one.leads(), two.leads()) == ([True, True], [False, False])
            holders = [(await two.client.get(Lease, name, "kube-system")).spec.holder_identity for name in LEASES]
            assert holders == [part.election.identity for part in one.parts if part.election is not None]
            await lose(one)
            await until(lambda: all(map(any, zip(one.leads(), two.leads(), strict=True))))
            await one.make_pods("after")
            await ending.aclose()
            await until(lambda: all(two.leads()))
            await two.make_pods("alone")

    with etcd_servers.fresh() as cluster:
        asyncio.run(main(cluster.config("/planes/").url()))


async def lose(one: Plane) -> None:
    """Let another holder take the leases and never renew them."""
    for name in LEASES:
        taken = {"spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 1}}
        await one.client.patch(Lease, name, taken, "kube-system")  # no version: the holder renews it meanwhile
    await until(lambda: not any(one.leads()))


def test_plane_with_its_own_store_needs_no_lease(pki: Pki) -> None:
    async def main() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS), plane("memory", pki) as one:
            assert one.leads() == [True, True]
            await one.make_pods("own")
            names = {lease.metadata.name for lease in (await one.client.list(Lease, "kube-system")).items}
            assert not names.intersection(LEASES)

    asyncio.run(main())
