# SPDX-License-Identifier: Apache-2.0
"""Desired routes, neighbours and tunnels, and the difference to the kernel's state."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Node, NodeAddress, NodeSpec, NodeStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kubelet_requests import SIMULATED_NODE_ANNOTATION
from kubeloop.network.desired_state import (
    VxlanSettings,
    host_gateway_state,
    simulated_pod_routes,
    tunnel_gateway,
    unreachable_nodes,
    vxlan_state,
)
from kubeloop.network.netlink.difference import KernelOperation, difference
from kubeloop.network.netlink.kernel_state import (
    VXLAN_LINK,
    ForwardingEntry,
    KernelRoute,
    KernelState,
    Neighbour,
    VxlanLink,
)
from kubeloop.network.nodes import ADDRESSES_ANNOTATION, ClusterNode, cluster_node_of


def node(number: int, *, families: tuple[int, ...] = (4, 6)) -> ClusterNode:
    cidrs = {4: ip_network(f"10.244.{number}.0/24"), 6: ip_network(f"fd44:0:0:{number}::/64")}
    addresses = {4: ip_address(f"172.30.0.{number}"), 6: ip_address(f"fd30::{number}")}
    return ClusterNode(f"n{number}", tuple(cidrs[v] for v in families), tuple(addresses[v] for v in families))


def test_packets_to_simulated_pods_are_rejected() -> None:
    metadata = ObjectMeta(name="n2", annotations={SIMULATED_NODE_ANNOTATION: ""})
    simulated = cluster_node_of(Node(metadata=metadata, spec=NodeSpec(pod_cidrs=("10.244.2.0/24",))))
    assert simulated_pod_routes([node(1), simulated]) == {KernelRoute("10.244.2.0/24")}


def test_host_gateway_routes_each_family_by_the_node_address_of_that_family() -> None:
    assert host_gateway_state(node(1), [node(1), node(2)]) == KernelState(
        frozenset(
            (
                KernelRoute("10.244.1.0/24"),
                KernelRoute("fd44:0:0:1::/64"),
                KernelRoute("10.244.2.0/24", "172.30.0.2"),
                KernelRoute("fd44:0:0:2::/64", "fd30::2"),
            )
        )
    )


def test_node_without_an_address_of_a_family_is_not_routed_but_reported() -> None:
    lonely = replace(node(2), addresses=(ip_address("172.30.0.2"),))
    routes = host_gateway_state(node(1), [lonely]).routes
    assert {route.destination for route in routes if route.gateway} == {"10.244.2.0/24"}
    assert unreachable_nodes(node(1), [lonely], "host-gw") == {"n2": "it has no IPv6 address"}
    assert unreachable_nodes(node(1), [lonely], "vxlan") == {}


def test_overlapping_pod_cidrs_are_routed_once() -> None:
    intruder = replace(node(3), pod_cidrs=(ip_network("10.244.0.0/16"),))
    copy = replace(node(4), pod_cidrs=node(2).pod_cidrs)
    routes = host_gateway_state(node(1), [node(2), intruder, copy]).routes
    assert {route.gateway for route in routes if route.gateway} == {"172.30.0.2", "fd30::2"}


def test_vxlan_carries_both_families_by_one_tunnel() -> None:
    own, other = node(1), node(2)
    state = vxlan_state(own, [own, other], VxlanSettings(7, 4789), 1500)
    gateway = tunnel_gateway(other, other.pod_cidrs[1])
    assert gateway.startswith("fe80::")
    addresses = ("10.244.1.0/32", "fd44:0:0:1::/128", f"{tunnel_gateway(own, own.pod_cidrs[1])}/64")
    assert state.link == VxlanLink(7, 4789, own.tunnel_mac, "172.30.0.1", 1450, tuple(sorted(addresses)))
    assert state.neighbours == {Neighbour("10.244.2.0", other.tunnel_mac), Neighbour(gateway, other.tunnel_mac)}
    assert state.forwarding == {ForwardingEntry(other.tunnel_mac, "172.30.0.2")}
    assert KernelRoute("10.244.2.0/24", "10.244.2.0", VXLAN_LINK) in state.routes
    assert KernelRoute("fd44:0:0:2::/64", gateway, VXLAN_LINK) in state.routes


def test_vxlan_over_ipv6_has_larger_headers() -> None:
    link = vxlan_state(node(1, families=(6,)), [], VxlanSettings(), 1500).link
    assert link is not None
    assert (link.mtu, link.local) == (1430, "fd30::1")


def test_tunnel_mac_is_local_unicast_and_differs_by_node() -> None:
    macs = {node(number).tunnel_mac for number in range(200)}
    assert len(macs) == 200
    assert all(int(mac[:2], 16) & 0b11 == 0b10 for mac in macs)


def test_link_local_gateway_is_the_eui64_of_the_mac() -> None:
    mac = [int(part, 16) for part in node(2).tunnel_mac.split(":")]
    eui = bytes((mac[0] ^ 2, *mac[1:3], 0xFF, 0xFE, *mac[3:]))
    expected = ip_address(ip_address("fe80::").packed[:8] + eui)
    assert tunnel_gateway(node(2), node(2).pod_cidrs[1]) == str(expected)


def test_addresses_of_the_annotation_come_before_those_of_the_status() -> None:
    status = NodeStatus(
        addresses=(
            NodeAddress(type="ExternalIP", address="1.1.1.1"),
            NodeAddress(type="InternalIP", address="10.0.0.1"),
            NodeAddress(type="InternalIP", address="10.0.0.2"),
            NodeAddress(type="InternalIP", address="fd00::1"),
        )
    )
    found = Node(metadata=ObjectMeta(name="n"), spec=NodeSpec(pod_cidrs=("10.244.1.0/24", "bad")), status=status)
    plain = cluster_node_of(found)
    assert plain.addresses == (ip_address("10.0.0.1"), ip_address("fd00::1"))
    assert plain.pod_cidrs == (ip_network("10.244.1.0/24"),)
    annotated = Node(
        metadata=ObjectMeta(name="n", annotations={ADDRESSES_ANNOTATION: "192.168.0.1"}), spec=found.spec, status=status
    )
    assert cluster_node_of(annotated).addresses == (ip_address("192.168.0.1"),)


def test_equal_states_need_nothing() -> None:
    state = vxlan_state(node(1), [node(2)], VxlanSettings(), 1500)
    assert difference(state, state) == []


def test_changed_gateway_is_replaced_and_not_deleted() -> None:
    old, new = KernelRoute("10.244.2.0/24", "172.30.0.2"), KernelRoute("10.244.2.0/24", "172.30.0.3")
    found = difference(KernelState(frozenset((old,))), KernelState(frozenset((new,))))
    assert found == [KernelOperation("replace", new)]


def test_new_link_loses_its_entries_and_routes() -> None:
    state = vxlan_state(node(1), [node(2)], VxlanSettings(), 1500)
    other = vxlan_state(node(1), [node(2)], VxlanSettings(vni=2), 1500)
    found = difference(state, other)
    assert [one.verb for one in found[:2]] == ["delete", "add"]
    assert {one.subject for one in found[2:]} == {
        *other.neighbours,
        *other.forwarding,
        *(route for route in other.routes if route.link),
    }


def test_changed_mtu_does_not_recreate_the_link() -> None:
    state = vxlan_state(node(1), [node(2)], VxlanSettings(), 1500)
    larger = vxlan_state(node(1), [node(2)], VxlanSettings(), 9000)
    assert larger.link is not None
    assert difference(state, larger) == [KernelOperation("update", larger.link)]


def test_backend_without_a_tunnel_removes_ours() -> None:
    state = vxlan_state(node(1), [node(2)], VxlanSettings(), 1500)
    found = difference(state, host_gateway_state(node(1), [node(2)]))
    assert found[0] == KernelOperation("delete", state.link)  # type: ignore[arg-type]
    assert {one.verb for one in found[1:]} == {"replace"}


members = st.sets(st.integers(1, 12), max_size=8)
builders = st.sampled_from(("host-gw", "vxlan"))


@given(members, builders, members, builders)
def test_operations_lead_to_the_desired_state(before: set[int], first: str, after: set[int], second: str) -> None:
    def build(numbers: set[int], kind: str) -> KernelState:
        nodes = [node(number) for number in numbers]
        return (
            host_gateway_state(node(99), nodes)
            if kind == "host-gw"
            else vxlan_state(node(99), nodes, VxlanSettings(), 1500)
        )

    actual, desired = build(before, first), build(after, second)
    assert apply(actual, difference(actual, desired)) == desired


def apply(state: KernelState, operations: list[KernelOperation]) -> KernelState:
    """Apply operations as the kernel does."""
    link = state.link
    routes = {(one.destination, bool(one.gateway)): one for one in state.routes}
    neighbours = {one.address: one for one in state.neighbours}
    forwarding = {one.mac: one for one in state.forwarding}
    for verb, subject in operations:
        if isinstance(subject, VxlanLink):
            if verb == "delete":
                link, neighbours, forwarding = None, {}, {}
                routes = {key: one for key, one in routes.items() if not one.link}
            else:
                link = subject
        elif isinstance(subject, KernelRoute):
            assert not subject.link or link is not None
            change(routes, (subject.destination, bool(subject.gateway)), subject, verb)
        elif isinstance(subject, Neighbour):
            change(neighbours, subject.address, subject, verb)
        else:
            change(forwarding, subject.mac, subject, verb)
    return KernelState(frozenset(routes.values()), link, frozenset(neighbours.values()), frozenset(forwarding.values()))


def change(entries: dict, key: object, subject: object, verb: str) -> None:  # type: ignore[type-arg]
    if verb == "delete":
        del entries[key]
    else:
        entries[key] = subject
