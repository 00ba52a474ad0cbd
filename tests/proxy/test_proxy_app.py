# SPDX-License-Identifier: Apache-2.0
"""The proxy on an in-process API server, in virtual time: informers, the Node, syncs, traces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, Service, ServicePort, ServiceSpec
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointHints, EndpointPort, EndpointSlice, ForZone
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.metrics import MetricRegistry
from kubeloop.nftables import NftablesNotFound
from kubeloop.proxy.app import ProxyApp, ProxyContext, build_proxy
from kubeloop.proxy.config.configuration import KubeProxyConfiguration
from kubeloop.proxy.config.decode import configuration_of
from kubeloop.proxy.health.proxy_health import ProxyHealth
from kubeloop.proxy.ip_family import IPV4
from kubeloop.proxy.metrics import ProxyMetrics
from kubeloop.proxy.node_addresses import detect_node_ips
from kubeloop.proxy.node_manager import NodeError, NodeManager
from kubeloop.proxy.packet_trace import PacketTrace, TracedPacket, trace
from kubeloop.runtime.informer.informer import SharedInformerFactory
from tests.unit.runtime.in_process_server import Server, play

NODE_IP = "192.0.2.1"
ALL_ADDRESSES = {"nodePortAddresses": ["all"], "clusterCIDR": "10.244.0.0/16"}


class ScriptLog:
    """Keeps the scripts."""

    def __init__(self) -> None:
        self.scripts: list[str] = []

    async def run(self, script: str, *, check: bool = False) -> str:
        if script.startswith("list"):
            raise NftablesNotFound("no table")
        self.scripts.append(script)
        return ""

    async def close(self) -> None: ...


class ProxyHarness:
    """A proxy of node n1 on a server."""

    def __init__(self, server: Server, config: KubeProxyConfiguration) -> None:
        self.client, self.loop = server.client, server.loop
        self.informers = SharedInformerFactory(server.client, server.clock)
        self.nftables, self.registry = ScriptLog(), MetricRegistry()
        health = ProxyHealth(server.clock, 60.0)
        metrics = ProxyMetrics(self.registry)
        self.context = ProxyContext(config, "n1", self.informers, self.nftables, server.clock, metrics, health)
        needs_pods = config.detect_local_mode == "NodeCIDR"
        self.manager = NodeManager(self.informers, "n1", needs_pod_cidrs=needs_pods)
        self.tasks: list[asyncio.Task[Any]] = []
        self.informers.start()

    async def start(self) -> ProxyApp:
        await self.manager.settle()
        app = build_proxy(self.context, self.manager, detect_node_ips(self.manager.host_ips, "0.0.0.0"), (IPV4,))
        self.tasks = [asyncio.create_task(app.run()), asyncio.create_task(self.manager.watch())]
        await self.loop.advance(5)
        return app

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.informers.stop()


def proxied(scenario: Callable[[ProxyHarness], Awaitable[None]], **config: Any) -> None:
    async def main(server: Server) -> None:
        harness = ProxyHarness(server, configuration_of(config or ALL_ADDRESSES))
        try:
            await scenario(harness)
        finally:
            await harness.stop()

    play(main)


async def add_node(harness: ProxyHarness, zone: str = "za", address: str = NODE_IP, pod_cidr: str = "") -> None:
    labels = {"topology.kubernetes.io/zone": zone}
    await harness.client.create(Node(metadata=ObjectMeta(name="n1", labels=labels)))
    await set_address(harness, address)
    if pod_cidr:
        await harness.client.patch(Node, "n1", {"spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}})


async def set_address(harness: ProxyHarness, address: str) -> None:
    status = {"addresses": [{"type": "InternalIP", "address": address}]}
    await harness.client.patch(Node, "n1", {"status": status}, subresource="status")


async def add_service(harness: ProxyHarness, name: str, *hosts: int, zones: str = "", **spec: Any) -> Service:
    labels = spec.pop("labels", {})
    spec = {"ports": (ServicePort(name="p", port=80, protocol="TCP"),), **spec}
    made: Service = await harness.client.create(
        Service(metadata=ObjectMeta(namespace="default", name=name, labels=labels), spec=ServiceSpec(**spec))
    )
    if hosts:
        rows = tuple(
            Endpoint(
                addresses=(f"10.244.0.{host}",),
                hints=EndpointHints(for_zones=(ForZone(name=zone),)) if zone else None,
            )
            for host, zone in zip(hosts, zones.split() or [""] * len(hosts), strict=True)
        )
        await harness.client.create(
            EndpointSlice(
                metadata=ObjectMeta(namespace="default", name=f"{name}-1", labels={"kubernetes.io/service-name": name}),
                address_type="IPv4",
                ports=(EndpointPort(name="p", port=8080, protocol="TCP"),),
                endpoints=rows,
            )
        )
    await harness.loop.advance(5)
    return made


def follow(app: ProxyApp, service: Service, port: int = 80) -> PacketTrace:
    return trace(app.proxiers[0].table, TracedPacket("198.51.100.9", service.spec.cluster_ip, port))


def test_services_and_endpoints_reach_the_table() -> None:
    async def scenario(harness: ProxyHarness) -> None:
        await add_node(harness)
        app = await harness.start()
        web = await add_service(harness, "web", 1, 2)
        assert follow(app, web).endpoints == ("10.244.0.1:8080", "10.244.0.2:8080")
        await harness.client.delete(EndpointSlice, "web-1", "default")
        await harness.loop.advance(5)
        assert follow(app, web).verdict == "reject"
        assert "delete table" in harness.nftables.scripts[0]
        assert all("delete table" not in script for script in harness.nftables.scripts[1:])
        text = harness.registry.render()
        assert "kubeproxy_sync_proxy_rules_service_changes_total" in text
        assert 'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1' in text

    proxied(scenario)


def test_headless_services_and_those_of_other_proxies_are_ignored() -> None:
    async def scenario(harness: ProxyHarness) -> None:
        await add_node(harness)
        app = await harness.start()
        other = await add_service(harness, "theirs", 1, labels={"service.kubernetes.io/service-proxy-name": "other"})
        await add_service(harness, "headless", 2, cluster_ip="None")
        names = {str(name) for name in app.proxiers[0].table.ports}
        assert not names & {"default/theirs:p", "default/headless:p"}
        assert follow(app, other).verdict in ("drop", "pass")

    proxied(scenario)


def test_hints_follow_the_zone_of_the_node() -> None:
    async def scenario(harness: ProxyHarness) -> None:
        await add_node(harness, "za")
        app = await harness.start()
        web = await add_service(harness, "web", 1, 2, zones="za zb")
        assert follow(app, web).endpoints == ("10.244.0.1:8080",)
        await harness.client.patch(Node, "n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "zb"}}})
        await harness.loop.advance(5)
        assert follow(app, web).endpoints == ("10.244.0.2:8080",)

    proxied(scenario)


def test_changed_address_of_the_node_ends_the_proxy() -> None:
    async def scenario(harness: ProxyHarness) -> None:
        await add_node(harness)
        await harness.start()
        await set_address(harness, "192.0.2.2")
        await harness.loop.advance(1)
        with pytest.raises(NodeError, match=r"addresses of node n1 have changed to 192\.0\.2\.2"):
            await harness.tasks[1]

    proxied(scenario)


def test_deleted_node_ends_the_proxy() -> None:
    async def scenario(harness: ProxyHarness) -> None:
        await add_node(harness)
        await harness.start()
        await harness.client.delete(Node, "n1")
        await harness.loop.advance(1)
        with pytest.raises(NodeError, match="node n1 is being deleted"):
            await harness.tasks[1]

    proxied(scenario)


def test_proxy_starts_without_its_node_after_a_while() -> None:
    async def scenario(harness: ProxyHarness) -> None:
        app = await asyncio.wait_for(harness.start(), 60)
        web = await add_service(harness, "web", 1)
        assert follow(app, web).endpoints == ("10.244.0.1:8080",)

    proxied(scenario)


def test_mode_node_cidr_needs_the_pod_network_of_the_node() -> None:
    async def with_network(harness: ProxyHarness) -> None:
        await add_node(harness, pod_cidr="10.244.7.0/24")
        app = await harness.start()
        assert app.proxiers[0].settings.detector.value == "10.244.7.0/24"

    async def without_network(harness: ProxyHarness) -> None:
        await add_node(harness)
        with pytest.raises(NodeError, match='timeout waiting for PodCIDR allocation on node "n1"'):
            await harness.manager.settle()

    proxied(with_network, detectLocalMode="NodeCIDR", nodePortAddresses=["all"])
    proxied(without_network, detectLocalMode="NodeCIDR", nodePortAddresses=["all"])
