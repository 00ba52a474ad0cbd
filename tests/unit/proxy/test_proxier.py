# SPDX-License-Identifier: Apache-2.0
"""Syncs of a proxier: one transaction with the differences, a whole table at first and after a failure."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kubeloop.metrics import MetricRegistry
from kubeloop.nftables import NftablesError, NftablesNotFound
from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.health.proxy_health import ProxyHealth
from kubeloop.proxy.kernel.conntrack import UdpFlow
from kubeloop.proxy.kernel.stale_flows import Frontends, UdpFrontends, stale_flows
from kubeloop.proxy.metrics import ProxyMetrics
from kubeloop.proxy.proxier import Proxier, ProxierDependencies
from kubeloop.proxy.service_port import NamespacedName, ServicePortInfo
from kubeloop.proxy.sync_runner import BoundedFrequencyRunner, SyncIntervals
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.unit.proxy.objects import NODE, NODE_IP, SETTINGS, port_name, ready, service, slice_of


class FakeNftables:
    """Keeps scripts; fails when told."""

    def __init__(self) -> None:
        self.scripts: list[str] = []
        self.failures = 0

    async def run(self, script: str, *, check: bool = False) -> str:
        if script.startswith("list"):
            raise NftablesNotFound("no table")
        if self.failures:
            self.failures -= 1
            raise NftablesError("told to fail")
        self.scripts.append(script)
        return ""

    async def close(self) -> None: ...


class FakeFlows:
    def __init__(self) -> None:
        self.flows: list[UdpFlow] = []
        self.deleted: list[UdpFlow] = []

    async def clean(self, frontends: Frontends) -> int:
        self.deleted += stale_flows(self.flows, frontends)
        return len(self.deleted)


async def addresses() -> tuple[str, ...]:
    return (NODE_IP, "127.0.0.1")


class FakeHealth:
    def __init__(self) -> None:
        self.services: dict[NamespacedName, tuple[int, int]] = {}

    async def set_service(self, service: NamespacedName, port: int, local_endpoints: int) -> None:
        self.services[service] = (port, local_endpoints)

    async def retry_failed(self) -> None: ...


class Bench:
    """A proxier with fakes."""

    def __init__(self, clock: Any) -> None:
        self.nftables, self.flows, self.service_health = FakeNftables(), FakeFlows(), FakeHealth()
        self.registry = MetricRegistry()
        self.health = ProxyHealth(clock, 60.0)
        parts = ProxierDependencies(
            self.nftables,
            clock,
            ProxyMetrics(self.registry),
            self.health,
            self.service_health,
            self.flows,
            addresses,
        )
        self.proxier = Proxier(SETTINGS, NODE, parts, SyncIntervals(1.0, 30.0, 30.0))

    def mark_synced(self) -> None:
        self.proxier.mark_synced("services")
        self.proxier.mark_synced("slices")


def run(test: Any) -> None:
    async def main() -> None:
        await test(Bench(VirtualClock(loop)))

    loop = VirtualLoop()
    run_virtual(main(), loop=loop)


def test_first_sync_waits_for_both_collections_and_replaces_the_table() -> None:
    async def test(bench: Bench) -> None:
        bench.proxier.on_service(service())
        bench.proxier.mark_synced("services")
        assert await bench.proxier.sync()
        assert bench.nftables.scripts == []
        bench.proxier.mark_synced("slices")
        assert await bench.proxier.sync()
        (script,) = bench.nftables.scripts
        assert "delete table ip kube-proxy" in script
        assert f"add element ip kube-proxy nodeport-ips {{ {NODE_IP} }}" in script
        assert "10.96.0.1 . tcp . 80" in script

    run(test)


def test_later_syncs_send_differences_and_nothing_without_changes() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        await bench.proxier.sync()
        await bench.proxier.sync()
        assert len(bench.nftables.scripts) == 1
        bench.proxier.on_service(service())
        bench.proxier.on_endpoint_slice(slice_of("web", ready("10.244.0.1")))
        await bench.proxier.sync()
        assert "delete table" not in bench.nftables.scripts[1]
        assert "service-endpoints-tcp { 10.96.0.1 . 80 . 0 : 10.244.0.1 . 8080 }" in bench.nftables.scripts[1]
        bench.proxier.on_service(service(), deleted=True)
        await bench.proxier.sync()
        assert "delete element ip kube-proxy cluster-ips { 10.96.0.1 }" in bench.nftables.scripts[2]

    run(test)


def test_failed_transaction_is_followed_by_the_whole_table() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        await bench.proxier.sync()
        bench.proxier.on_service(service())
        bench.nftables.failures = 1
        assert not await bench.proxier.sync()
        assert await bench.proxier.sync()
        assert "delete table" in bench.nftables.scripts[-1]
        assert "10.96.0.1 . tcp . 80" in bench.nftables.scripts[-1]
        assert 'nftables_sync_failures_total{ip_family="IPv4"} 1' in bench.registry.render()

    run(test)


def test_sync_that_raises_is_followed_by_the_whole_table() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        await bench.proxier.sync()
        bench.proxier.on_service(service())

        async def fail(script: str, *, check: bool = False) -> str:
            raise ZeroDivisionError

        original, bench.nftables.run = bench.nftables.run, fail  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError):
            await bench.proxier.sync()
        bench.nftables.run = original  # type: ignore[method-assign]
        assert await bench.proxier.sync()
        assert "10.96.0.1 . tcp . 80" in bench.nftables.scripts[-1]

    run(test)


def test_table_is_replaced_once_an_hour() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        await bench.proxier.sync()
        await asyncio.sleep(3700)
        await bench.proxier.sync()
        assert [script.count("delete table") for script in bench.nftables.scripts] == [1, 1]

    run(test)


def test_empty_chains_are_deleted_a_second_later() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        bench.proxier.on_service(service())
        bench.proxier.on_endpoint_slice(slice_of("web", ready("10.244.0.1")))
        await bench.proxier.sync()
        bench.proxier.on_endpoint_slice(slice_of("web", ready("10.244.0.1"), ready("10.244.0.2")))
        await bench.proxier.sync()
        assert "flush chain ip kube-proxy endpoints-tcp-1" in bench.nftables.scripts[-1]
        await bench.proxier.sync()
        assert "delete chain" not in "".join(bench.nftables.scripts)
        await asyncio.sleep(1.5)
        await bench.proxier.sync()
        assert bench.nftables.scripts[-1] == "delete chain ip kube-proxy endpoints-tcp-1\n"

    run(test)


def test_chain_that_is_used_again_is_not_deleted() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        bench.proxier.on_service(service())
        for hosts in ((1,), (1, 2), (1,)):
            rows = [ready(f"10.244.0.{host}") for host in hosts]
            bench.proxier.on_endpoint_slice(slice_of("web", *rows))
            await bench.proxier.sync()
        await asyncio.sleep(5)
        await bench.proxier.sync()
        assert bench.nftables.scripts[-1] == "delete chain ip kube-proxy endpoints-tcp-2\n"

    run(test)


def test_zone_and_service_networks_change_the_table_by_differences() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        await bench.proxier.sync()
        bench.proxier.set_service_cidrs(["10.96.0.0/16", "fd96::/112"])
        await bench.proxier.sync()
        assert "ip daddr { 10.96.0.0/16 } drop" in bench.nftables.scripts[-1]
        assert "delete table" not in bench.nftables.scripts[-1]
        count = len(bench.nftables.scripts)
        bench.proxier.set_zone("za")
        await bench.proxier.sync()
        assert len(bench.nftables.scripts) == count  # no endpoint has a hint

    run(test)


def test_health_checks_count_ready_local_addresses_once() -> None:
    async def test(bench: Bench) -> None:
        bench.mark_synced()
        web = NamespacedName("ns", "web")
        bench.proxier.on_service(
            service(type="LoadBalancer", external_traffic_policy="Local", health_check_node_port=30100)
        )
        rows = [ready("10.244.0.1", NODE), ready("10.244.0.2", NODE, ready=False), ready("10.244.0.3")]
        bench.proxier.on_endpoint_slice(slice_of("web", *rows))
        await bench.proxier.sync()
        assert bench.service_health.services == {web: (30100, 1)}
        bench.proxier.on_service(service())
        await bench.proxier.sync()
        assert bench.service_health.services == {web: (0, 1)}

    run(test)


def test_flows_to_gone_endpoints_are_deleted_after_a_change_of_udp_endpoints() -> None:
    async def test(bench: Bench) -> None:
        stale = UdpFlow("10.96.0.1", 80, "10.244.0.9", 8080, b"")
        fresh = UdpFlow("10.96.0.1", 80, "10.244.0.1", 8080, b"")
        bench.flows.flows = [stale, fresh, UdpFlow("192.0.2.1", 80, "192.0.2.1", 80, b"")]
        bench.mark_synced()
        ports = (service().spec.ports[0].__class__(name="p", port=80, protocol="UDP"),)
        bench.proxier.on_service(service(ports=ports))
        await bench.proxier.sync()
        assert bench.flows.deleted == []
        bench.proxier.on_endpoint_slice(slice_of("web", ready("10.244.0.1"), protocol="UDP"))
        await bench.proxier.sync()
        assert bench.flows.deleted == [stale]

    run(test)


def test_node_port_flows_are_kept_while_no_endpoint_serves() -> None:
    frontends = UdpFrontends()
    port = ServicePortInfo("10.96.0.1", 80, "UDP", node_port=30001, external_ips=("198.51.100.1",))
    flows = [
        UdpFlow("192.168.0.1", 30001, "10.244.0.9", 8080, b""),
        UdpFlow("198.51.100.1", 80, "10.244.0.9", 8080, b""),
    ]
    frontends.set_port(port_name("web", "UDP"), port, ())
    assert stale_flows(flows, frontends.snapshot()) == flows[1:]
    terminating = EndpointInfo("10.244.0.1", 8080, is_ready=False, is_terminating=True)
    frontends.set_port(port_name("web", "UDP"), port, [terminating, replace(terminating, is_serving=False, port=1)])
    assert stale_flows(flows, frontends.snapshot()) == flows
    frontends.set_port(port_name("web", "UDP"), None, ())
    assert stale_flows(flows, frontends.snapshot()) == []


def test_health_waits_for_the_sync_of_a_change() -> None:
    async def test(bench: Bench) -> None:
        bench.health.mark_updated("IPv4")
        bench.mark_synced()
        assert bench.health.is_healthy
        bench.nftables.failures = 1
        await bench.proxier.sync()
        await asyncio.sleep(61)
        assert not bench.health.is_healthy
        await bench.proxier.sync()
        assert bench.health.is_healthy

    run(test)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([True, True], [0, 100]),  # nothing fails: only the longest interval
        ([False, False, False, True, False, True], [0, 1, 3, 7, 107, 108]),
    ],
)
def test_runner_repeats_failures_with_increasing_delays(outcomes: list[bool], expected: list[int]) -> None:
    times: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        async def function() -> bool:
            times.append(loop.time() - began)
            if len(times) == len(outcomes):
                done.set()
            return outcomes[len(times) - 1]

        began = loop.time()
        runner = BoundedFrequencyRunner(function, SyncIntervals(0.0, 30.0, 100.0))
        runner.request()
        task = asyncio.create_task(runner.run())
        await done.wait()
        task.cancel()

    run_virtual(main())
    assert [round(one) for one in times] == expected


def test_runner_keeps_the_least_interval() -> None:
    times: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def function() -> bool:
            times.append(loop.time())
            return True

        runner = BoundedFrequencyRunner(function, SyncIntervals(5.0, 30.0, 100.0))
        task = asyncio.create_task(runner.run())
        for _ in range(9):
            runner.request()
            await asyncio.sleep(1)
        task.cancel()

    run_virtual(main())
    assert [round(one - times[0]) for one in times] == [0, 5]
