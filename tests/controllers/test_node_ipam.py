"""Every node gets a network for its pods, none gets another's, and what is let go is given again."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node
from kubeloop.controllers import InvalidControllers, node_ipam
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster, node
from tests.controllers.node_world import configure

BOTH = "10.0.0.0/16,fd00::/48"


def start(cluster: Cluster, ranges: str = "10.0.0.0/22", **flags: Any) -> Loop:
    configure(cluster, allocate_node_cidrs=True, cluster_cidr=ranges, **flags)
    return cluster.start(node_ipam.wire)


def add(cluster: Cluster, *names: str, **spec: Any) -> None:
    for name in names:
        cluster.add(node(name, **spec))
        cluster.settle()


def networks(cluster: Cluster, name: str) -> list[str]:
    return list(cluster.client.get(Node, name).spec.pod_cidrs)


def told(cluster: Cluster, reason: str) -> list[str]:
    return [event.message for event in cluster.events(reason=reason)]


def test_nodes_get_networks_one_after_the_other(cluster: Cluster) -> None:
    add(cluster, "before")
    start(cluster)
    add(cluster, "after")
    assert networks(cluster, "before") == ["10.0.0.0/24"]
    assert networks(cluster, "after") == ["10.0.1.0/24"]
    assert cluster.client.get(Node, "after").spec.pod_cidr == "10.0.1.0/24"


def test_nothing_is_given_unless_it_is_asked_for(cluster: Cluster) -> None:
    configure(cluster, cluster_cidr="10.0.0.0/16")
    loop = cluster.start(node_ipam.wire)
    add(cluster, "a")
    assert networks(cluster, "a") == []
    assert loop.health().ok


def test_nodes_of_two_families_get_a_network_of_each(cluster: Cluster) -> None:
    start(cluster, BOTH, node_cidr_mask_size_ipv4=20)
    add(cluster, "a", "b")
    assert networks(cluster, "a") == ["10.0.0.0/20", "fd00::/64"]
    assert networks(cluster, "b") == ["10.0.16.0/20", "fd00:0:0:1::/64"]


def test_size_is_the_flags(cluster: Cluster) -> None:
    start(cluster, "fd00::/108", node_cidr_mask_size=112)
    add(cluster, "a", "b")
    assert networks(cluster, "b") == ["fd00::1:0/112"]


def test_what_services_have_no_node_gets(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/22", service_cluster_ip_range="10.0.0.0/23")
    add(cluster, "a")
    assert networks(cluster, "a") == ["10.0.2.0/24"]


def test_service_range_smaller_than_a_nodes_network_takes_it_whole(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/22", service_cluster_ip_range="10.0.0.16/28,fd00::/112")
    add(cluster, "a")
    assert networks(cluster, "a") == ["10.0.1.0/24"]


def test_what_nodes_have_already_is_kept_and_given_to_nobody(cluster: Cluster) -> None:
    add(cluster, "has", pod_cidr="10.0.0.0/24", pod_cidrs=("10.0.0.0/24",))
    start(cluster)
    add(cluster, "comes-with", pod_cidr="10.0.1.0/24", pod_cidrs=("10.0.1.0/24",))
    add(cluster, "gets")
    assert networks(cluster, "has") == ["10.0.0.0/24"]
    assert networks(cluster, "gets") == ["10.0.2.0/24"]


def test_larger_network_that_a_node_has_is_taken_whole(cluster: Cluster) -> None:
    add(cluster, "has", pod_cidr="10.0.0.0/23", pod_cidrs=("10.0.0.0/23",))
    start(cluster)
    add(cluster, "gets")
    assert networks(cluster, "gets") == ["10.0.2.0/24"]


def test_exhaustion_is_told_and_over_as_soon_as_a_node_goes(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/23")
    add(cluster, "a", "b", "c")
    assert networks(cluster, "c") == []
    assert told(cluster, "CIDRNotAvailable")[0] == "Node c status is now: CIDRNotAvailable"
    (event, *_) = cluster.events(reason="CIDRNotAvailable")
    assert (event.type, event.source.component) == ("Normal", "cidrAllocator")
    cluster.advance(2000)
    cluster.client.delete(Node, "a")
    cluster.settle()
    assert networks(cluster, "c") == ["10.0.0.0/24"]


def test_network_of_a_node_that_went_is_given_last(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/22")
    add(cluster, "a", "b")
    cluster.client.delete(Node, "a")
    add(cluster, "c", "d", "e")
    assert [networks(cluster, name) for name in "cde"] == [["10.0.2.0/24"], ["10.0.3.0/24"], ["10.0.0.0/24"]]


def test_network_that_two_nodes_have_by_hand_is_free_when_both_are_gone(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/24")
    add(cluster, "a", "b", pod_cidr="10.0.0.0/24", pod_cidrs=("10.0.0.0/24",))
    add(cluster, "c")
    cluster.client.delete(Node, "a")
    cluster.advance(60)
    assert networks(cluster, "c") == []
    cluster.client.delete(Node, "b")
    cluster.settle()
    assert networks(cluster, "c") == ["10.0.0.0/24"]


def test_nothing_of_one_family_is_lost_when_the_other_is_exhausted(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/22,fd00::/64")
    add(cluster, "a", "b")
    cluster.advance(100)
    assert networks(cluster, "b") == []
    cluster.client.delete(Node, "a")
    cluster.settle()
    assert networks(cluster, "b")[1] == "fd00::/64"
    shown = cluster.context.telemetry.registry.render()
    assert 'node_ipam_controller_cidrset_usage_cidrs{clusterCIDR="10.0.0.0/22"} 0.25' in shown
    assert 'node_ipam_controller_cirdset_max_cidrs{clusterCIDR="10.0.0.0/22"} 4' in shown


def test_write_that_fails_is_tried_again_with_the_same_network(cluster: Cluster) -> None:
    start(cluster)
    cluster.faults.fail("patch", "nodes", times=3)
    add(cluster, "a", "b")
    cluster.advance(10)
    assert sorted(networks(cluster, "a") + networks(cluster, "b")) == ["10.0.0.0/24", "10.0.1.0/24"]
    assert told(cluster, "CIDRAssignmentFailed")


def test_network_is_not_lost_with_the_answer(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/23")
    cluster.faults.lose_answers("patch", "nodes", times=2)
    add(cluster, "a", "b")
    cluster.advance(10)
    assert sorted(networks(cluster, "a") + networks(cluster, "b")) == ["10.0.0.0/24", "10.0.1.0/24"]


def test_node_whose_network_is_none_of_ours_is_left_alone(cluster: Cluster) -> None:
    add(cluster, "odd", pod_cidr="192.168.0.0/24", pod_cidrs=("192.168.0.0/24",))
    loop = start(cluster)
    add(cluster, "a")
    assert networks(cluster, "a") == ["10.0.0.0/24"]
    assert "out the range of cluster cidr 10.0.0.0/22" in loop.status().last_error
    cluster.client.delete(Node, "odd")
    cluster.settle()


def test_successor_gives_nothing_twice(cluster: Cluster) -> None:
    first = start(cluster)
    add(cluster, "a", "b")
    cluster.client.delete(Node, "a")
    cluster.stop(first)
    cluster.start(node_ipam.wire)
    add(cluster, "c", "d")
    assert networks(cluster, "b") == ["10.0.1.0/24"]
    assert (networks(cluster, "c"), networks(cluster, "d")) == (["10.0.0.0/24"], ["10.0.2.0/24"])


def test_node_that_is_gone_meanwhile_is_forgotten(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/24")
    cluster.faults.delay(5, "patch", "nodes", times=1)
    cluster.client.create(node("a"))
    cluster.settle()
    cluster.client.delete(Node, "a")
    add(cluster, "b")
    cluster.advance(30)
    assert networks(cluster, "b") == ["10.0.0.0/24"]
    with pytest.raises(NotFound):
        cluster.client.get(Node, "a")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"cluster_cidr": ""}, "Must specify --cluster-cidr"),
        ({"cluster_cidr": "nonsense"}, "invalid CIDR address: nonsense"),
        ({"cluster_cidr": "10.0.0.0/16,10.1.0.0/16"}, "not configured as dual stack"),
        ({"cluster_cidr": "10.0.0.0/16,fd00::/48,10.1.0.0/16"}, "more than max allowed of 2"),
        ({"cluster_cidr": "10.0.0.0/25"}, "mask size of cluster CIDR must be less than or equal"),
        ({"cluster_cidr": "fd00::/32"}, "the node CIDR size is too big"),
        ({"cluster_cidr": BOTH, "node_cidr_mask_size": 24}, "not allowed with dual-stack"),
        ({"cluster_cidr": "10.0.0.0/16", "node_cidr_mask_size_ipv6": 64}, "single-stack IPv4"),
        ({"cluster_cidr": "fd00::/48", "node_cidr_mask_size_ipv4": 24}, "single-stack IPv6"),
        (
            {"cluster_cidr": "10.0.0.0/16", "node_cidr_mask_size": 24, "node_cidr_mask_size_ipv4": 24},
            "is not allowed if",
        ),
        ({"cluster_cidr": BOTH, "service_cluster_ip_range": "10.1.0.0/24,10.2.0.0/24"}, "not dualstack"),
        ({"cluster_cidr": BOTH, "cidr_allocator_type": "CloudAllocator"}, "cloud provider is not configured"),
        ({"cluster_cidr": BOTH, "cidr_allocator_type": "Magic"}, "invalid CIDR allocator type: Magic"),
    ],
)
def test_flags_that_can_not_be_meant_are_refused(cluster: Cluster, flags: dict[str, Any], why: str) -> None:
    configure(cluster, allocate_node_cidrs=True, **flags)
    with pytest.raises(InvalidControllers, match=why):
        node_ipam.wire(cluster.context)
