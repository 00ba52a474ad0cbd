# SPDX-License-Identifier: Apache-2.0
"""The local cloud's own parts: addresses, endpoints, connections, and its file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import (
    ClientIPConfig,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
    SessionAffinityConfig,
)
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import SystemClock
from kubeloop.cloud.local.backends import Backend, SessionAffinityTable, affinity_seconds, backends_of
from kubeloop.cloud.local.config_file import LocalFile
from kubeloop.cloud.local.load_balancers import LocalLoadBalancers, choose_address
from kubeloop.cloud.provider import CloudError
from kubeloop.cloud.provider_registry import InvalidProvider, ProviderDependencies, load
from kubeloop.cloud.source_ranges import ANNOTATION, source_ranges
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.sim.loop import START, VirtualClock, VirtualLoop

NETWORK = IPv4Network("127.77.1.0/29")
PORT = 21295


def service(uid: str = "u", told: str = "", **spec: Any) -> Service:
    status = LoadBalancerStatus(ingress=(LoadBalancerIngress(ip=told),) if told else ())
    fields = {"ports": (ServicePort(port=PORT, protocol="TCP"),), **spec}
    return Service(
        metadata=ObjectMeta(name="web", namespace="default", uid=uid),
        spec=ServiceSpec(type="LoadBalancer", **fields),
        status=ServiceStatus(load_balancer=status),
    )


def slice_of(port: int, *addresses: str, ready: bool | None = True, name: str = "") -> EndpointSlice:
    conditions = EndpointConditions(ready=ready)
    return EndpointSlice(
        metadata=ObjectMeta(name="s", namespace="default", labels={"kubernetes.io/service-name": "web"}),
        endpoints=tuple(Endpoint(addresses=(one,), conditions=conditions) for one in addresses),
        ports=(EndpointPort(name=name, port=port, protocol="TCP"),),
    )


# Addresses.


@given(uids=st.lists(st.uuids().map(str), min_size=1, max_size=6, unique=True))
@settings(max_examples=50)
def test_addresses_are_unique(uids: list[str]) -> None:
    taken: set[str] = set()
    for uid in uids:
        taken.add(choose_address(service(uid), taken, NETWORK))
    assert len(taken) == len(uids)


def test_exhausted_network_is_reported() -> None:
    everything = {str(one) for one in NETWORK}
    with pytest.raises(CloudError, match="no free address"):
        choose_address(service(), everything, NETWORK)


def test_service_keeps_its_status_address() -> None:
    assert choose_address(service(told="127.77.1.4"), set(), NETWORK) == "127.77.1.4"


def test_service_gets_its_requested_address() -> None:
    assert choose_address(service(load_balancer_ip="127.77.1.5"), set(), NETWORK) == "127.77.1.5"


@pytest.mark.parametrize(("wanted", "taken"), [("127.77.1.5", {"127.77.1.5"}), ("10.0.0.1", set()), ("x", set())])
def test_unavailable_requested_address_is_rejected(wanted: str, taken: set[str]) -> None:
    with pytest.raises(CloudError):
        choose_address(service(load_balancer_ip=wanted), taken, NETWORK)


# Endpoints.


def test_ready_endpoints_of_the_ports_name_are_backends() -> None:
    port = ServicePort(name="http", port=80)
    slices = [slice_of(1, "10.0.0.1", "10.0.0.2", name="http"), slice_of(2, "10.0.0.3", name="other")]
    assert backends_of(slices, port) == (Backend("10.0.0.1", 1), Backend("10.0.0.2", 1))
    assert backends_of([slice_of(1, "10.0.0.1", ready=False, name="http")], port) == ()
    assert backends_of([slice_of(1, "10.0.0.1", ready=None, name="http")], port) == (Backend("10.0.0.1", 1),)


def test_names_under_localhost_are_this_machine() -> None:
    port = ServicePort(port=80)
    assert backends_of([slice_of(1, "web.localhost")], port) == (Backend("127.0.0.1", 1),)
    assert backends_of([slice_of(1, "notlocalhost.example")], port) == (Backend("notlocalhost.example", 1),)


def test_session_affinity_keeps_a_client_on_its_endpoint() -> None:
    loop = VirtualLoop()
    try:
        affinity = SessionAffinityTable(VirtualClock(loop, START, 0))
        backends = [Backend("10.0.0.1", number) for number in range(20)]
        affinity.record("client", "http", backends[7])
        assert affinity.order("client", "http", backends, 60.0)[0] == backends[7]
        assert sorted(affinity.order("client", "http", backends, 60.0)) == backends
        assert affinity.order("client", "http", backends[:3], 60.0)[0] in backends[:3]
        loop.run_until_complete(asyncio.sleep(61))
        firsts = {affinity.order("client", "http", backends, 60.0)[0] for _ in range(20)}
        assert len(firsts) > 1
    finally:
        loop.close()


def test_session_affinity_follows_the_service() -> None:
    config = SessionAffinityConfig(client_ip=ClientIPConfig(timeout_seconds=5))
    assert affinity_seconds(service()) is None
    assert affinity_seconds(service(session_affinity="ClientIP")) == 10800
    assert affinity_seconds(service(session_affinity="ClientIP", session_affinity_config=config)) == 5


# Source ranges.


def test_source_ranges_come_from_spec_then_annotation_then_default() -> None:
    annotated = Service(metadata=ObjectMeta(annotations={ANNOTATION: "10.0.0.0/8, 192.168.0.0/16"}))
    assert source_ranges(service(load_balancer_source_ranges=("10.1.0.0/16",))) == ("10.1.0.0/16",)
    assert source_ranges(annotated) == ("10.0.0.0/8", "192.168.0.0/16")
    assert source_ranges(service()) == ("0.0.0.0/0",)


def test_invalid_source_ranges_report_upstreams_message() -> None:
    with pytest.raises(CloudError, match=r"service\.Spec\.LoadBalancerSourceRanges: \[x\] is not valid"):
        source_ranges(service(load_balancer_source_ranges=("x",)))
    with pytest.raises(CloudError, match="Expecting a comma-separated list of source IP ranges"):
        source_ranges(Service(metadata=ObjectMeta(annotations={ANNOTATION: "x"})))


# Connections.


class Echo:
    """Server that sends its name, then echoes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read()
        writer.write(self.name.encode() + b":" + heard)
        await writer.drain()
        writer.close()


def run(scenario: Callable[[LocalLoadBalancers, SharedInformerFactory], Awaitable[None]]) -> None:
    async def whole() -> None:
        informers = SharedInformerFactory(None, SystemClock())  # type: ignore[arg-type]  # caches are filled by hand
        balancers = LocalLoadBalancers(informers, SystemClock(), "127.77.2.0/24")
        try:
            await scenario(balancers, informers)
        finally:
            await balancers.close()

    asyncio.run(whole())


async def send_and_receive(address: str, text: bytes, port: int = PORT) -> bytes:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(text)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


def fill(informers: SharedInformerFactory, *slices: EndpointSlice) -> None:
    informers.for_resource(resource_of_class(EndpointSlice)).replace(slices, "1")


def test_data_is_forwarded_in_both_directions() -> None:
    async def scenario(balancers: LocalLoadBalancers, informers: SharedInformerFactory) -> None:
        echo = Echo("a")
        async with await echo.start():
            fill(informers, slice_of(echo.port, "127.0.0.1"))
            status = await balancers.ensure("c", service(), ())
            much = bytes(range(256)) * 8192
            assert await send_and_receive(status.ingress[0].ip, much) == b"a:" + much

    run(scenario)


def test_unreachable_endpoint_is_skipped() -> None:
    async def scenario(balancers: LocalLoadBalancers, informers: SharedInformerFactory) -> None:
        echo = Echo("a")
        async with await echo.start():
            fill(informers, slice_of(echo.port, "127.0.0.1", "127.9.9.9"))
            status = await balancers.ensure("c", service(), ())
            for _ in range(8):
                assert await send_and_receive(status.ingress[0].ip, b"x") == b"a:x"

    run(scenario)


def test_connection_without_endpoints_is_closed() -> None:
    async def scenario(balancers: LocalLoadBalancers, informers: SharedInformerFactory) -> None:
        fill(informers)
        status = await balancers.ensure("c", service(), ())
        assert await send_and_receive(status.ingress[0].ip, b"") == b""

    run(scenario)


def test_removed_port_is_closed() -> None:
    async def scenario(balancers: LocalLoadBalancers, informers: SharedInformerFactory) -> None:
        status = await balancers.ensure("c", service(), ())
        await balancers.ensure("c", service(ports=(ServicePort(port=PORT + 1, protocol="TCP"),)), ())
        with pytest.raises(ConnectionRefusedError):
            await send_and_receive(status.ingress[0].ip, b"x")

    run(scenario)


def test_address_of_an_unserved_service_stays_reserved() -> None:
    async def scenario(balancers: LocalLoadBalancers, informers: SharedInformerFactory) -> None:
        first = await balancers.ensure("c", service("one"), ())
        address = first.ingress[0].ip
        await balancers.close()  # as after a restart
        informers.for_resource(resource_of_class(Service)).replace([service("one", told=address)], "1")
        second = await balancers.ensure("c", service("two", told=address), ())
        assert second.ingress[0].ip != address

    run(scenario)


def test_unavailable_ports_are_reported() -> None:
    async def scenario(balancers: LocalLoadBalancers, informers: SharedInformerFactory) -> None:
        both = (ServicePort(name="t", port=PORT, protocol="TCP"), ServicePort(name="u", port=PORT, protocol="UDP"))
        status = await balancers.ensure("c", service(ports=both), ())
        assert [(one.protocol, one.error) for one in status.ingress[0].ports] == [
            ("TCP", None),
            ("UDP", "UnsupportedProtocol"),
        ]
        with pytest.raises(CloudError, match="only TCP"):
            await balancers.ensure("c", service("v", ports=both[1:]), ())

    run(scenario)


# The file.


def test_config_without_nodes_has_no_instances_and_routes() -> None:
    made = load("local", ProviderDependencies(None, SharedInformerFactory(None, SystemClock()), SystemClock()))  # type: ignore[arg-type]
    assert made.instances is None
    assert made.routes is None
    assert made.load_balancers is not None


@pytest.mark.parametrize("text", ["nodes: 1", "unknown: 1", "loadBalancers: {network: 10.0.0.0/8}", "{"])
def test_invalid_file_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cloud.yaml"
    path.write_text(text)
    with pytest.raises(InvalidProvider, match=r"cloud\.yaml"):
        LocalFile(str(path)).read()


def test_removed_file_is_an_error_and_deletes_no_nodes(tmp_path: Path) -> None:
    path = tmp_path / "cloud.yaml"
    path.write_text("nodes: [{name: n1}]")
    file = LocalFile(str(path))
    assert file.read().nodes
    path.unlink()
    with pytest.raises(InvalidProvider):
        file.read()
