# SPDX-License-Identifier: Apache-2.0
"""What happens to packets, by a walk through the desired table: every kind of Service and every source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubeloop.proxy.ip_family import IPV4, IPV6
from kubeloop.proxy.node_addresses import LocalTrafficDetector, nodeport_addresses
from kubeloop.proxy.packet_trace import PacketTrace, TracedPacket, trace
from kubeloop.proxy.rules.table import ProxyTable
from kubeloop.proxy.service_port import ServicePortInfo
from tests.unit.proxy.objects import CLIENT, NODE_IP, SETTINGS, TableBuilder, endpoints, port_name

POD = "10.244.0.1"
PLAIN = ServicePortInfo("10.96.0.1", 80, "TCP")
EXTERNAL = replace(PLAIN, node_port=30001, external_ips=("198.51.100.1",), load_balancer_vips=("203.0.113.1",))
LOCAL = replace(EXTERNAL, external_policy_local=True)
BOTH = ("10.244.0.1:8080", "10.244.0.2:8080")


def go(table: ProxyTable, source: str, destination: str, port: int = 80, **more: str) -> PacketTrace:
    return trace(table, TracedPacket(source, destination, port, local_addresses=frozenset([NODE_IP]), **more))


@pytest.mark.parametrize(("source", "masquerade"), [(CLIENT, True), (NODE_IP, True), (POD, False)])
def test_cluster_ip(source: str, masquerade: bool) -> None:
    found = go(TableBuilder().add("web", PLAIN, endpoints(1, 2)).table, source, "10.96.0.1")
    assert (found.verdict, found.service_port, found.endpoints) == ("forward", port_name("web"), BOTH)
    assert found.masquerade is masquerade


def test_masquerade_all_and_no_detection() -> None:
    for settings, source, expected in (
        (replace(SETTINGS, masquerade_all=True), POD, True),
        (replace(SETTINGS, detector=LocalTrafficDetector()), CLIENT, False),
        (replace(SETTINGS, detector=LocalTrafficDetector("interface", "veth*")), POD, True),
    ):
        found = go(TableBuilder(settings).add("web", PLAIN, endpoints(1)).table, source, "10.96.0.1")
        assert found.masquerade is expected
    by_interface = replace(SETTINGS, detector=LocalTrafficDetector("interface", "veth*"))
    table = TableBuilder(by_interface).add("web", PLAIN, endpoints(1)).table
    assert not go(table, POD, "10.96.0.1", interface="veth1").masquerade


def test_pod_that_reaches_itself_is_masqueraded() -> None:
    table = TableBuilder().add("web", PLAIN, endpoints(1, 2, local=(1,))).table
    assert go(table, POD, "10.96.0.1").hairpin_endpoints == ("10.244.0.1:8080",)
    assert go(table, "10.244.0.2", "10.96.0.1").hairpin_endpoints == ()


@pytest.mark.parametrize(("destination", "port"), [(NODE_IP, 30001), ("198.51.100.1", 80), ("203.0.113.1", 80)])
@pytest.mark.parametrize("source", [CLIENT, NODE_IP, POD])
def test_external_traffic_is_masqueraded_to_all_endpoints(destination: str, port: int, source: str) -> None:
    found = go(TableBuilder().add("web", EXTERNAL, endpoints(1, 2)).table, source, destination, port)
    assert (found.verdict, found.endpoints, found.masquerade) == ("forward", BOTH, True)


@pytest.mark.parametrize(("destination", "port"), [(NODE_IP, 30001), ("198.51.100.1", 80), ("203.0.113.1", 80)])
@pytest.mark.parametrize(
    ("source", "expected", "masquerade"),
    [(CLIENT, ("10.244.0.2:8080",), False), (NODE_IP, BOTH, True), (POD, BOTH, False)],
)
@pytest.mark.parametrize("affinity", [0, 100])
def test_external_policy_local(
    destination: str, port: int, source: str, expected: tuple[str, ...], masquerade: bool, affinity: int
) -> None:
    service = replace(LOCAL, affinity_seconds=affinity)
    found = go(TableBuilder().add("web", service, endpoints(1, 2, local=(2,))).table, source, destination, port)
    assert (found.verdict, found.endpoints, found.masquerade) == ("forward", expected, masquerade)
    assert found.has_affinity is bool(affinity)


@pytest.mark.parametrize(("destination", "port"), [(NODE_IP, 30001), ("198.51.100.1", 80), ("203.0.113.1", 80)])
def test_external_policy_local_without_local_endpoints_drops_outside_traffic_only(destination: str, port: int) -> None:
    table = TableBuilder().add("web", LOCAL, endpoints(1, 2)).table
    assert go(table, CLIENT, destination, port).verdict == "drop"
    assert go(table, NODE_IP, destination, port).endpoints == BOTH
    assert go(table, CLIENT, "10.96.0.1").endpoints == BOTH
    assert (table.lacks_internal, table.lacks_external) == (0, 1)


@pytest.mark.parametrize("affinity", [0, 100])
def test_internal_policy_local(affinity: int) -> None:
    service = replace(EXTERNAL, internal_policy_local=True, affinity_seconds=affinity)
    builder = TableBuilder().add("web", service, endpoints(1, 2, local=(2,)))
    assert go(builder.table, CLIENT, "10.96.0.1").endpoints == ("10.244.0.2:8080",)
    assert go(builder.table, CLIENT, NODE_IP, 30001).endpoints == BOTH
    builder.add("web", service, endpoints(1, 2))
    assert go(builder.table, CLIENT, "10.96.0.1").verdict == "drop"
    assert go(builder.table, CLIENT, NODE_IP, 30001).endpoints == BOTH
    assert builder.table.lacks_internal == 1


@pytest.mark.parametrize(
    ("destination", "port"), [("10.96.0.1", 80), (NODE_IP, 30001), ("198.51.100.1", 80), ("203.0.113.1", 80)]
)
@pytest.mark.parametrize("port_info", [EXTERNAL, LOCAL, replace(EXTERNAL, affinity_seconds=9)])
def test_no_endpoints_rejects(destination: str, port: int, port_info: ServicePortInfo) -> None:
    table = TableBuilder().add("web", port_info, []).table
    found = go(table, CLIENT, destination, port)
    assert (found.verdict, found.service_port) == ("reject", port_name("web"))


def test_source_ranges_concern_load_balancer_ips_only() -> None:
    service = replace(EXTERNAL, source_ranges=("192.0.2.0/24",))
    table = TableBuilder().add("web", service, endpoints(1)).table
    assert go(table, "192.0.2.7", "203.0.113.1").verdict == "forward"
    assert go(table, CLIENT, "203.0.113.1").verdict == "drop"
    assert go(table, CLIENT, NODE_IP, 30001).verdict == "forward"
    assert go(table, CLIENT, "198.51.100.1").verdict == "forward"


def test_node_within_source_ranges_may_use_its_vip_as_source() -> None:
    service = replace(EXTERNAL, source_ranges=(f"{NODE_IP}/32",))
    table = TableBuilder().add("web", service, endpoints(1)).table
    packet = TracedPacket("203.0.113.1", "203.0.113.1", 80, local_addresses=frozenset(["203.0.113.1"]))
    assert trace(table, packet).verdict == "forward"


def test_node_ports_are_open_at_chosen_addresses_only() -> None:
    table = TableBuilder().add("web", EXTERNAL, endpoints(1)).table
    packet = TracedPacket(CLIENT, "192.168.0.2", 30001, local_addresses=frozenset([NODE_IP, "192.168.0.2"]))
    assert trace(table, packet).verdict == "pass"
    everywhere = replace(SETTINGS, nodeport_addresses=nodeport_addresses([], IPV4))
    table = TableBuilder(everywhere).add("web", EXTERNAL, endpoints(1)).table
    assert trace(table, packet).verdict == "forward"
    assert go(table, "127.0.0.1", "127.0.0.1", 30001).verdict == "pass"  # never at loopback addresses
    assert go(table, CLIENT, "192.0.2.1", 30001).verdict == "pass"  # an address of another machine


def test_unknown_ports_and_addresses() -> None:
    table = TableBuilder(service_cidrs=("10.96.0.0/16",)).add("web", PLAIN, endpoints(1)).table
    assert go(table, CLIENT, "10.96.0.1", 81).verdict == "reject"
    assert go(table, CLIENT, "10.96.0.1", protocol="udp").verdict == "reject"
    assert go(table, CLIENT, "10.96.9.9").verdict == "drop"
    assert go(table, CLIENT, "192.0.2.1").verdict == "pass"
    assert go(table, CLIENT, "192.0.2.1").reason == "no rule concerns the packet"


@pytest.mark.parametrize("protocol", ["UDP", "SCTP"])
def test_other_protocols(protocol: str) -> None:
    table = TableBuilder().add("web", replace(EXTERNAL, protocol=protocol), endpoints(1, 2)).table
    assert go(table, CLIENT, "10.96.0.1", protocol=protocol.lower()).endpoints == BOTH
    assert go(table, CLIENT, NODE_IP, 30001, protocol=protocol.lower()).endpoints == BOTH
    assert go(table, CLIENT, NODE_IP, 30001).verdict == "pass"


def test_ipv6_endpoints_have_brackets() -> None:
    settings = replace(SETTINGS, family=IPV6, nodeport_addresses=nodeport_addresses([], IPV6))
    rows = [replace(one, ip=f"fd00::{number}") for number, one in enumerate(endpoints(1, 2), 1)]
    for affinity in (0, 5):
        port = ServicePortInfo("fd96::1", 80, "TCP", affinity_seconds=affinity)
        table = TableBuilder(settings).add("web", port, rows).table
        assert go(table, "fd50::1", "fd96::1").endpoints == ("[fd00::1]:8080", "[fd00::2]:8080")


def test_port_with_the_lesser_name_has_a_contested_address() -> None:
    port = replace(PLAIN, external_ips=("198.51.100.1",))
    builder = TableBuilder().add("b", replace(port, cluster_ip="10.96.0.2"), endpoints(2)).add("a", port, endpoints(1))
    assert go(builder.table, CLIENT, "198.51.100.1").service_port == port_name("a")
    builder.table.set_port(port_name("a"), None)
    assert go(builder.table, CLIENT, "198.51.100.1").endpoints == ("10.244.0.2:8080",)
