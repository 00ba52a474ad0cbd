# SPDX-License-Identifier: Apache-2.0
"""Service kube-dns: its objects, and the controller that keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.dns.kube_dns_controller import wire_kube_dns
from kubeloop.dns.kube_dns_service import KubeDnsEndpoints, KubeDnsError, dns_service_ip, kube_dns_objects
from kubeloop.runtime.app import App, LoopContext
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import LoopManager
from tests.unit.dns.dns_objects import ask, lines, namespace, new_zone
from tests.unit.runtime.in_process_server import Server, play

ENDPOINTS = KubeDnsEndpoints(("192.0.2.1", "2001:db8::1", "192.0.2.2"), port=5353)


@pytest.mark.parametrize(
    ("network", "address"), [("10.96.0.0/12", "10.96.0.10"), ("10.0.0.0/24", "10.0.0.10"), ("fd00::/112", "fd00::a")]
)
def test_service_ip_is_the_tenth_of_the_range(network: str, address: str) -> None:
    assert dns_service_ip(network) == address


def test_impossible_addresses_are_rejected() -> None:
    with pytest.raises(KubeDnsError, match="tenth"):
        dns_service_ip("10.0.0.0/29")
    for address in ("127.0.0.1", "0.0.0.0", "::1", "169.254.1.1"):
        with pytest.raises(KubeDnsError, match="pods"):
            kube_dns_objects("10.96.0.0/12", KubeDnsEndpoints((address,)))


def test_objects_are_answered_by_the_server_itself() -> None:
    service, slices = kube_dns_objects("10.0.0.0/24", ENDPOINTS)
    assert [one.address_type for one in slices] == ["IPv4", "IPv6"]
    assert [(port.name, port.protocol, port.port) for port in service.spec.ports] == [
        ("dns", "UDP", 53),
        ("dns-tcp", "TCP", 53),
        ("metrics", "TCP", 9153),
    ]
    name = "kube-dns.kube-system.svc.cluster.local."
    stored = msgspec.structs.replace(service, spec=msgspec.structs.replace(service.spec, cluster_ips=("10.0.0.10",)))
    zone = new_zone(namespace("kube-system"), stored, *slices)
    assert lines(ask(zone, name)) == [f"{name} 30 A 10.0.0.10"]
    assert lines(ask(zone, f"_dns._udp.{name}", "SRV")) == [f"_dns._udp.{name} 30 SRV 0 100 53 {name}"]
    assert lines(ask(zone, f"192-0-2-2.{name}")) == [f"192-0-2-2.{name} 30 A 192.0.2.2"]


async def eventually(look: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    for _ in range(500):
        if await look():
            return
        await asyncio.sleep(0.05)
    assert await look()


async def exists(api: Server, kind: type, name: str) -> bool:
    try:
        await api.client.get(kind, name, "kube-system")
    except NotFound:
        return False
    return True


async def running(api: Server) -> asyncio.Task[None]:
    informers = SharedInformerFactory(api.client, api.clock)
    controller = wire_kube_dns(
        LoopContext(api.client, informers, api.clock), *kube_dns_objects("10.0.0.0/24", ENDPOINTS)
    )
    return asyncio.create_task(App(LoopManager([controller], api.clock), informers).run())


def test_controller_creates_and_restores_the_objects() -> None:
    async def scenario(api: Server) -> None:
        await api.client.create(namespace("kube-system"))
        task = await running(api)
        for kind, name in ((Service, "kube-dns"), (EndpointSlice, "kube-dns-ipv4"), (EndpointSlice, "kube-dns-ipv6")):
            await eventually(lambda kind=kind, name=name: exists(api, kind, name))  # type: ignore[misc]
            first = await api.client.get(kind, name, "kube-system")
            await api.client.delete(kind, name, "kube-system")

            async def is_new(kind: type = kind, name: str = name, uid: str = first.metadata.uid) -> bool:
                if not await exists(api, kind, name):
                    return False
                return (await api.client.get(kind, name, "kube-system")).metadata.uid != uid

            await eventually(is_new)
        await api.client.patch(EndpointSlice, "kube-dns-ipv4", {"ports": []}, "kube-system")

        async def has_ports() -> bool:
            found = await api.client.get(EndpointSlice, "kube-dns-ipv4", "kube-system")
            return len(found.ports or ()) == 3

        await eventually(has_ports)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(scenario)


def test_service_with_a_selector_is_left_alone() -> None:
    async def scenario(api: Server) -> None:
        await api.client.create(namespace("kube-system"))
        service, _ = kube_dns_objects("10.0.0.0/24", ENDPOINTS)
        spec = msgspec.structs.replace(service.spec, selector={"k8s-app": "kube-dns"}, ports=service.spec.ports[:1])
        await api.client.create(msgspec.structs.replace(service, spec=spec))
        task = await running(api)
        await asyncio.sleep(60)
        assert not await exists(api, EndpointSlice, "kube-dns-ipv4")
        found = await api.client.get(Service, "kube-dns", "kube-system")
        assert found.spec.selector == {"k8s-app": "kube-dns"}
        assert len(found.spec.ports) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(scenario)
