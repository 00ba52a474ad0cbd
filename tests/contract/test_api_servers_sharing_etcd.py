# SPDX-License-Identifier: Apache-2.0
"""Several API servers on one real etcd: what is unique stays so, refusals are never out of ignorance, all are known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeloop.api import errors
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import (
    ConfigMap,
    Endpoints,
    Namespace,
    ResourceQuota,
    ResourceQuotaSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.registry.allocation import ServiceRanges
from kubeloop.apiserver.registry.allocation.recorder import PORTS, PortRecord
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.client import Client
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from kubeloop.store import Store
from kubeloop.store.etcd.client import Unavailable
from tests.bounds import GIVE_UP_SECONDS
from tests.contract.stores import EtcdSupply
from tests.etcd_processes import EtcdCluster

ADMIN = User("admin", ("system:masters",))
FEW = ServiceRanges(networks=("10.7.0.0/27",), node_ports=range(30000, 30024))

Scenario = Callable[[Sequence["Server"]], Awaitable[None]]


class Server:
    """Server with a client of its own."""

    def __init__(self, running: RunningServer) -> None:
        self.running = running
        self.client = Client(InProcessTransport(running.app, ADMIN))

    @property
    def store(self) -> Store:
        return self.running.app.registry.store


@asynccontextmanager
async def servers(cluster: EtcdCluster, prefix: str, count: int) -> AsyncIterator[list[Server]]:
    url = cluster.config(prefix).url()
    addresses = [f"192.0.2.{number + 1}" for number in range(count)]
    async with AsyncExitStack() as stack:
        started: list[Server] = []
        for address in addresses:
            config = ApiServerConfig(store=url, port=0, advertise_address=address, service_ranges=FEW)
            running = await _patiently_started(config)
            stack.push_async_callback(running.close_now)
            started.append(Server(running))
        yield started


async def _patiently_started(config: ApiServerConfig) -> RunningServer:
    """Wait for an etcd that was just started."""
    while True:
        try:
            return await start_server(config, SystemClock())
        except Unavailable:
            continue


@pytest.fixture(scope="module")
def cluster(etcd_servers: EtcdSupply) -> Iterator[EtcdCluster]:
    with etcd_servers.fresh() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def three(cluster: EtcdCluster, runner: asyncio.Runner) -> Iterator[Callable[[Scenario], None]]:
    """Three servers shared by all tests of the module; each test has its own namespace."""
    stack = AsyncExitStack()
    started = runner.run(_enter(stack, servers(cluster, "/three/", 3)))

    def play(scenario: Scenario) -> None:
        async def main() -> None:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await scenario(started)

        runner.run(main())

    yield play
    runner.run(stack.aclose())


async def _enter(stack: AsyncExitStack, context: Any) -> Any:
    return await stack.enter_async_context(context)


def service(name: str, namespace: str, **spec: Any) -> Service:
    port = ServicePort(port=80, node_port=spec.pop("node_port", 0))
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(ports=(port,), type="NodePort", **spec)
    )


async def namespace(on: Sequence[Server], name: str) -> None:
    await on[0].client.create(Namespace(metadata=ObjectMeta(name=name)))


def test_concurrent_services_of_three_servers_share_no_address_or_port(
    three: Callable[[Scenario], None],
) -> None:
    async def scenario(on: Sequence[Server]) -> None:
        await namespace(on, "unique")
        made = await asyncio.gather(
            *(on[number % 3].client.create(service(f"s{number}", "unique")) for number in range(18))
        )
        ports = [one.spec.ports[0].node_port for one in made]
        addresses = [one.spec.cluster_ip for one in made]
        assert len(set(ports)) == len(set(addresses)) == len(made)
        recorded = {int(one.key.removeprefix(PORTS)) for one in on[0].store.range(PORTS).records}
        assert recorded >= set(ports)
        await asyncio.gather(*(on[2].client.delete(Service, one.metadata.name, "unique") for one in made))
        await on[1].store.wait_current()
        left = {int(one.key.removeprefix(PORTS)) for one in on[1].store.range(PORTS).records}
        assert not left & set(ports)

    three(scenario)


def recorded_addresses(server: Server) -> set[str]:
    return {one.key for one in server.store.range("/registry/ipaddresses/").records}


def test_same_port_on_two_servers_is_rejected_once(three: Callable[[Scenario], None]) -> None:
    async def scenario(on: Sequence[Server]) -> None:
        await namespace(on, "same-port")
        before = recorded_addresses(on[0])
        for attempt in range(5):
            results = await asyncio.gather(
                *(
                    server.client.create(service(f"s{attempt}-{number}", "same-port", node_port=30005))
                    for number, server in enumerate(on)
                ),
                return_exceptions=True,
            )
            (made,) = (one for one in results if isinstance(one, Service))
            refused = [one for one in results if isinstance(one, errors.ApiError)]
            assert {one.code for one in refused} == {422}
            assert all("provided port is already allocated" in str(one) for one in refused)
            await on[attempt % 3].client.delete(Service, made.metadata.name, "same-port")
        await until(lambda: recorded_addresses(on[0]) == before)

    three(scenario)


def test_released_port_can_be_allocated_by_another_server(three: Callable[[Scenario], None]) -> None:
    async def scenario(on: Sequence[Server]) -> None:
        await namespace(on, "given-up")
        made = await on[0].client.create(service("first", "given-up", node_port=30007))
        await on[1].client.patch(Service, "first", {"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}, "given-up")
        second = await on[2].client.create(service("second", "given-up", node_port=30007))
        assert second.spec.ports[0].node_port == made.spec.ports[0].node_port
        for name in ("first", "second"):
            await on[0].client.delete(Service, name, "given-up")

    three(scenario)


def test_quota_is_enforced_across_servers(three: Callable[[Scenario], None]) -> None:
    async def scenario(on: Sequence[Server]) -> None:
        await namespace(on, "quota")
        hard = {"count/configmaps": Quantity("7")}
        meta = ObjectMeta(name="few", namespace="quota")
        quota = await on[0].client.create(ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(hard=hard)))
        status = {"status": {"hard": hard, "used": {"count/configmaps": "0"}}}
        await on[0].client.patch(ResourceQuota, "few", status, "quota", subresource="status")
        await asyncio.gather(*(server.store.wait_current() for server in on))

        async def make(number: int) -> bool:
            """Retry conflicts like a client."""
            while True:
                try:
                    meta = ObjectMeta(name=f"c{number}", namespace="quota")
                    await on[number % 3].client.create(ConfigMap(metadata=meta))
                except errors.Conflict:
                    continue
                except errors.Forbidden:
                    return False
                return True

        made = await asyncio.gather(*map(make, range(15)))
        assert made.count(True) == 7
        quota = await on[1].client.get(ResourceQuota, "few", "quota")
        assert quota.status.used["count/configmaps"] == "7"

    three(scenario)


def test_acknowledged_write_is_visible_on_every_server(three: Callable[[Scenario], None]) -> None:
    """Run each step on the next server, which may not have seen the step before."""

    async def scenario(on: Sequence[Server]) -> None:
        for attempt in range(20):
            name, first, second, third = f"n{attempt}", *(on[(attempt + step) % 3].client for step in range(3))
            await first.create(Namespace(metadata=ObjectMeta(name=name)))
            made = await second.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=name)))
            changed = msgspec.structs.replace(made, data={"by": "third"})
            put = await third.update(changed)
            patched = await first.patch(ConfigMap, "a", {"data": {"more": "x"}}, name)
            assert patched.data == {"by": "third", "more": "x"}
            assert int(patched.metadata.resource_version) > int(put.metadata.resource_version)
            same = await second.patch(ConfigMap, "a", {"data": {"more": "x"}}, name)  # changes nothing
            assert same.metadata.resource_version == patched.metadata.resource_version
            assert (await third.get(ConfigMap, "a", name)).data == patched.data
            await second.delete(ConfigMap, "a", name)
            await first.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=name)))

    three(scenario)


def test_no_op_update_is_answered_from_the_latest_state(
    three: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(on: Sequence[Server]) -> None:
        await namespace(on, "nothing")
        one, other = on[0], on[1]
        await one.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="nothing"), data={"v": "1"}))
        await other.store.wait_current()
        stale = other.store.get("/registry/configmaps/nothing/a")
        assert stale is not None
        newest = await one.client.patch(ConfigMap, "a", {"data": {"v": "2"}}, "nothing")
        await other.store.wait_current()
        peek, shown = other.store.peek, iter([stale])  # once, before anything was observed
        monkeypatch.setattr(other.store, "peek", lambda key: (key == stale.key and next(shown, None)) or peek(key))
        patched = await other.client.patch(ConfigMap, "a", {"data": {"v": "1"}}, "nothing")
        assert patched.data == {"v": "1"}
        assert int(patched.metadata.resource_version) > int(newest.metadata.resource_version)

    three(scenario)


def test_kubernetes_service_has_endpoints_of_all_live_servers(cluster: EtcdCluster) -> None:
    async def main() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS), servers(cluster, "/known/", 2) as on:
            assert await published_addresses(on[0], 2) == {"192.0.2.1", "192.0.2.2"}
            leases = await on[1].client.list(Lease, "kube-system")
            assert sum("apiserver.kubernetes.io/identity" in one.metadata.labels for one in leases.items) == 2
            await on[1].running.close_now()
            assert await published_addresses(on[0], 1) == {"192.0.2.1"}

    asyncio.run(main())


async def published_addresses(server: Server, count: int) -> set[str]:
    """Return the addresses of Endpoints and slices, once both have this many."""
    while True:
        endpoints = await server.client.get(Endpoints, "kubernetes", "default")
        told = {one.ip for subset in endpoints.subsets for one in subset.addresses}
        slices = await server.client.list(EndpointSlice, "default")
        sliced = {one for item in slices.items for endpoint in item.endpoints for one in endpoint.addresses}
        if told == sliced and len(told) == count:
            return told
        await asyncio.sleep(0.05)


def test_leftovers_of_a_crashed_server_are_repaired(three: Callable[[Scenario], None]) -> None:
    async def scenario(on: Sequence[Server]) -> None:
        await namespace(on, "repair")
        made = await on[0].client.create(service("whole", "repair", node_port=30020))
        store = on[0].store
        await store.write(f"{PORTS}30020", None)  # its record is lost,
        await store.write(f"{PORTS}30021", b'{"namespace":"repair","name":"gone"}')  # and one is without its service
        allocator = on[0].running.app.registry.storage_named("", "v1", "services").allocator
        assert allocator is not None
        repair = allocator.repair(SystemClock())
        for _ in range(2):
            repair.run_once()
            await store.write("/registry/masterleases/later", b'{"address":"127.0.0.1","port":1}')
        await store.write("/registry/masterleases/later", None)
        await store.wait_current()
        record = store.get(f"{PORTS}30020")
        assert record is not None
        assert msgspec.json.decode(record.value, type=PortRecord) == PortRecord("repair", "whole")
        assert store.get(f"{PORTS}30021") is None
        await on[1].client.delete(Service, made.metadata.name, "repair")

    three(scenario)


def test_server_without_etcd_is_not_ready_until_it_returns(tmp_path: Path) -> None:
    async def main() -> None:
        with EtcdCluster(tmp_path) as own:
            async with asyncio.timeout(GIVE_UP_SECONDS), servers(own, "/ready/", 1) as (server,):
                assert status(server, "/readyz") == status(server, "/livez") == 200
                own.members[0].kill()
                await until(lambda: status(server, "/readyz") == 500)
                assert status(server, "/livez/etcd") == 500
                own.members[0].start(own.members)
                await until(lambda: status(server, "/readyz") == 200)

    asyncio.run(main())


def status(server: Server, path: str) -> int:
    return server.running.app.nonresource.handle(Request("GET", path)).status


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # nobody tells when a health check changes
        await asyncio.sleep(0.02)
