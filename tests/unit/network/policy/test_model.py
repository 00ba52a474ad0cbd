# SPDX-License-Identifier: Apache-2.0
"""Parts of policies with their defaults, which the evaluator and the compiler share."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from kubeloop.api.generated.core_v1 import Container, ContainerPort, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import LabelSelector, ObjectMeta
from kubeloop.api.generated.networking_v1 import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyPeer,
    NetworkPolicySpec,
)
from kubeloop.network.policy.model import (
    NamedPort,
    PodEndpoint,
    named_ports_of,
    networks_of,
    peer_selector_of,
    policy_types_of,
)
from kubeloop.runtime.objects.keys import ObjectKey


@pytest.mark.parametrize(
    ("types", "egress", "expected"),
    [
        ((), (), {"Ingress"}),
        ((), (NetworkPolicyEgressRule(),), {"Ingress", "Egress"}),
        (("Egress",), (), {"Egress"}),
        (("Ingress",), (NetworkPolicyEgressRule(),), {"Ingress"}),
        (("Ingress", "Egress"), (), {"Ingress", "Egress"}),
    ],
)
def test_policy_types(types: tuple[str, ...], egress: tuple[NetworkPolicyEgressRule, ...], expected: set[str]) -> None:
    spec = NetworkPolicySpec(policy_types=types, egress=egress)
    assert policy_types_of(NetworkPolicy(metadata=ObjectMeta(name="p"), spec=spec)) == expected


@pytest.mark.parametrize(
    ("cidr", "excepted", "inside", "outside"),
    [
        ("10.0.0.0/24", (), ["10.0.0.0", "10.0.0.255"], ["10.0.1.0", "fd00::1"]),
        ("10.0.0.0/24", ("10.0.0.5/32",), ["10.0.0.4", "10.0.0.6"], ["10.0.0.5"]),
        ("10.0.0.0/24", ("10.0.0.0/25", "10.0.0.128/26"), ["10.0.0.200"], ["10.0.0.1", "10.0.0.150"]),
        ("10.0.0.0/24", ("10.0.0.0/24",), [], ["10.0.0.1"]),
        ("::/0", ("fd00::/8",), ["fc00::1"], ["fd00::1", "10.0.0.1"]),
        ("nonsense", (), [], ["10.0.0.1"]),
    ],
)
def test_block_without_its_exceptions(
    cidr: str, excepted: tuple[str, ...], inside: list[str], outside: list[str]
) -> None:
    networks = networks_of(IPBlock(cidr=cidr, except_=excepted))
    assert all(any(ip_address(one) in network for network in networks) for one in inside)
    assert not any(ip_address(one) in network for network in networks for one in outside)


def test_networks_of_a_block_are_disjoint() -> None:
    networks = networks_of(IPBlock(cidr="10.0.0.0/16", except_=("10.0.3.0/24", "10.0.3.128/25")))
    assert sum(network.num_addresses for network in networks) == ip_network("10.0.0.0/16").num_addresses - 256


def pod(namespace: str, **labels: str) -> PodEndpoint:
    return PodEndpoint(ObjectKey(namespace, "p"), labels)


def test_selector_of_pods_is_limited_to_the_namespace_of_the_policy() -> None:
    selector = peer_selector_of(NetworkPolicyPeer(pod_selector=LabelSelector()), "x")
    assert selector is not None
    assert selector.matches(pod("x"), None)
    assert not selector.matches(pod("y"), {})


def test_selector_of_namespaces_selects_all_their_pods() -> None:
    peer = NetworkPolicyPeer(namespace_selector=LabelSelector(match_labels={"team": "a"}))
    selector = peer_selector_of(peer, "x")
    assert selector is not None
    assert selector.matches(pod("y"), {"team": "a"})
    assert not selector.matches(pod("x"), {"team": "b"})
    assert not selector.matches(pod("z"), None)  # a namespace that is not known


def test_peer_without_fields_and_blocks_select_no_pods() -> None:
    assert peer_selector_of(NetworkPolicyPeer(), "x") is None
    assert peer_selector_of(NetworkPolicyPeer(ip_block=IPBlock(cidr="::/0")), "x") is None


def test_named_ports_of_containers_and_sidecars() -> None:
    def container(name: str, restart: str | None = None) -> Container:
        return Container(name=name, ports=(ContainerPort(name=name, container_port=80),), restart_policy=restart)

    spec = PodSpec(containers=(container("main"),), init_containers=(container("once"), container("sidecar", "Always")))
    assert named_ports_of(Pod(spec=spec)) == {NamedPort("TCP", "main", 80), NamedPort("TCP", "sidecar", 80)}
