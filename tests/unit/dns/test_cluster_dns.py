# SPDX-License-Identifier: Apache-2.0
"""The whole server on an API server in the same process: readiness, changes, lost watches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec, Service
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.dns.cluster_dns import ClusterDns, ClusterDnsSettings
from kubeloop.dns.forward.addresses import UpstreamError
from kubeloop.dns.zone.settings import ZoneSettings
from tests.unit.dns.dns_objects import (
    ask,
    code,
    endpoint,
    endpoint_slice,
    external,
    lines,
    namespace,
    new_handler,
    service,
)
from tests.unit.runtime.in_process_server import Server, play, resource

WEB = "web.default.svc.cluster.local."
LOOPBACK = ClusterDnsSettings(bind_addresses=("127.0.0.1",), port=0)


async def settled(server: ClusterDns, name: str, expected: Any) -> None:
    """Wait until a question has the expected answer, or fail with the one that it has."""
    found: Any = None
    for _ in range(200):
        response = ask(new_handler(server.zone), name)
        found = lines(response) if isinstance(expected, list) else code(response)
        if found == expected:
            return
        await asyncio.sleep(0.01)
    assert found == expected


def test_server_follows_the_cluster() -> None:
    async def scenario(api: Server) -> None:
        client = api.client
        await client.create(namespace("default"))
        await client.create(service("web", "10.0.0.21"))
        server = ClusterDns(client, api.clock, LOOPBACK)
        assert server.unready_reasons == ["namespaces", "services", "endpointslices"]
        assert code(ask(new_handler(server.zone), WEB)) == "SERVFAIL"
        await server.start()
        await server.wait_ready()
        assert server.unready_reasons == []
        await settled(server, WEB, [f"{WEB} 30 A 10.0.0.21"])
        await client.create(service("heads", "None"))
        await client.create(endpoint_slice("heads", endpoint("10.1.0.1")))
        await settled(server, "heads.default.svc.cluster.local.", ["heads.default.svc.cluster.local. 30 A 10.1.0.1"])
        await client.delete(Service, "web", "default")
        await settled(server, WEB, "NXDOMAIN")
        api.drop_watches(resource("services"))
        await client.create(service("web", "10.0.0.22"))
        await settled(server, WEB, [f"{WEB} 30 A 10.0.0.22"])
        await server.close()

    play(scenario)


def test_pods_are_watched_only_if_they_are_verified() -> None:
    async def scenario(api: Server) -> list[list[str]]:
        found = []
        for mode in ("insecure", "verified"):
            settings = ClusterDnsSettings(zone=ZoneSettings(pods=mode), bind_addresses=("127.0.0.1",), port=0)  # type: ignore[arg-type]
            server = ClusterDns(api.client, api.clock, settings)
            found.append(server.unready_reasons)
            await server.close()
        return found

    watched = ["namespaces", "services", "endpointslices"]
    assert play(scenario) == [watched, [*watched, "pods"]]


def test_verified_pods_follow_the_cluster() -> None:
    async def scenario(api: Server) -> None:
        client = api.client
        await client.create(namespace("default"))
        settings = ClusterDnsSettings(zone=ZoneSettings(pods="verified"), bind_addresses=("127.0.0.1",), port=0)
        server = ClusterDns(client, api.clock, settings)
        await server.start()
        await server.wait_ready()
        name = "10-1-2-3.default.pod.cluster.local."
        await settled(server, name, "NXDOMAIN")
        spec = PodSpec(containers=(Container(name="c", image="i"),))
        await client.create(Pod(metadata=ObjectMeta(name="a", namespace="default"), spec=spec))
        status = {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}}
        await client.patch(Pod, "a", status, "default", subresource="status")
        await settled(server, name, [f"{name} 30 A 10.1.2.3"])
        await client.delete(Pod, "a", "default", grace_seconds=0)
        await settled(server, name, "NXDOMAIN")
        await server.close()

    play(scenario)


def test_upstream_that_is_the_server_itself_is_rejected() -> None:
    async def scenario(api: Server) -> None:
        first = ClusterDns(api.client, api.clock, LOOPBACK)
        ((host, port),) = first.addresses
        await first.close()
        settings = ClusterDnsSettings(bind_addresses=(host,), port=port, upstreams=((host, port),))
        with pytest.raises(UpstreamError, match="loop"):
            ClusterDns(api.client, api.clock, settings)
        again = ClusterDns(
            api.client, api.clock, ClusterDnsSettings(bind_addresses=(host,), port=port)
        )  # the port is free
        await again.close()

    play(scenario)


def test_namespace_deletion_hides_its_services() -> None:
    async def scenario(api: Server) -> None:
        await api.client.create(namespace("default"))
        await api.client.create(namespace("shop"))
        await api.client.create(service("web", "10.0.0.21", ns="shop"))
        await api.client.create(external("out", "a.example", ns="shop"))
        server = ClusterDns(api.client, api.clock, LOOPBACK)
        await server.start()
        await server.wait_ready()
        name = "web.shop.svc.cluster.local."
        await settled(server, name, [f"{name} 30 A 10.0.0.21"])
        shop = namespace("shop")
        server.zone.delete_namespace(shop)
        server.zone.flush()
        await settled(server, name, "NXDOMAIN")
        await server.close()

    play(scenario)
