# SPDX-License-Identifier: Apache-2.0
"""Tests of pod CIDRs: every node gets one, none is shared, and released ones are reused."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node
from kubeloop.controllers import InvalidControllers, node_ipam
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster, node
from tests.controllers.nodes import configure

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


def event_messages(cluster: Cluster, reason: str) -> list[str]:
    return [event.message for event in cluster.events(reason=reason)]


def test_nodes_get_consecutive_cidrs(cluster: Cluster) -> None:
    add(cluster, "before")
    start(cluster)
    add(cluster, "after")
    assert networks(cluster, "before") == ["10.0.0.0/24"]
    assert networks(cluster, "after") == ["10.0.1.0/24"]
    assert cluster.client.get(Node, "after").spec.pod_cidr == "10.0.1.0/24"


def test_allocation_is_disabled_by_default(cluster: Cluster) -> None:
    configure(cluster, cluster_cidr="10.0.0.0/16")
    loop = cluster.start(node_ipam.wire)
    add(cluster, "a")
    assert networks(cluster, "a") == []
    assert loop.health().ok


def test_dual_stack_nodes_get_a_cidr_per_family(cluster: Cluster) -> None:
    start(cluster, BOTH, node_cidr_mask_size_ipv4=20)
    add(cluster, "a", "b")
    assert networks(cluster, "a") == ["10.0.0.0/20", "fd00::/64"]
    assert networks(cluster, "b") == ["10.0.16.0/20", "fd00:0:0:1::/64"]


def test_mask_size_is_set_by_flag(cluster: Cluster) -> None:
    start(cluster, "fd00::/108", node_cidr_mask_size=112)
    add(cluster, "a", "b")
    assert networks(cluster, "b") == ["fd00::1:0/112"]


def test_service_range_is_excluded(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/22", service_cluster_ip_range="10.0.0.0/23")
    add(cluster, "a")
    assert networks(cluster, "a") == ["10.0.2.0/24"]


def test_service_range_smaller_than_a_node_cidr_excludes_all_of_it(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/22", service_cluster_ip_range="10.0.0.16/28,fd00::/112")
    add(cluster, "a")
    assert networks(cluster, "a") == ["10.0.1.0/24"]


def test_existing_node_cidrs_are_kept_and_not_reused(cluster: Cluster) -> None:
    add(cluster, "has", pod_cidr="10.0.0.0/24", pod_cidrs=("10.0.0.0/24",))
    start(cluster)
    add(cluster, "comes-with", pod_cidr="10.0.1.0/24", pod_cidrs=("10.0.1.0/24",))
    add(cluster, "gets")
    assert networks(cluster, "has") == ["10.0.0.0/24"]
    assert networks(cluster, "gets") == ["10.0.2.0/24"]


def test_larger_existing_node_cidr_is_occupied_completely(cluster: Cluster) -> None:
    add(cluster, "has", pod_cidr="10.0.0.0/23", pod_cidrs=("10.0.0.0/23",))
    start(cluster)
    add(cluster, "gets")
    assert networks(cluster, "gets") == ["10.0.2.0/24"]


def test_exhaustion_records_an_event_until_a_node_is_deleted(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/23")
    add(cluster, "a", "b", "c")
    assert networks(cluster, "c") == []
    assert event_messages(cluster, "CIDRNotAvailable")[0] == "Node c status is now: CIDRNotAvailable"
    (event, *_) = cluster.events(reason="CIDRNotAvailable")
    assert (event.type, event.source.component) == ("Normal", "cidrAllocator")
    cluster.advance(2000)
    cluster.client.delete(Node, "a")
    cluster.settle()
    assert networks(cluster, "c") == ["10.0.0.0/24"]


def test_released_cidr_is_reused_last(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/22")
    add(cluster, "a", "b")
    cluster.client.delete(Node, "a")
    add(cluster, "c", "d", "e")
    assert [networks(cluster, name) for name in "cde"] == [["10.0.2.0/24"], ["10.0.3.0/24"], ["10.0.0.0/24"]]


def test_cidr_of_two_nodes_is_released_with_the_last_one(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/24")
    add(cluster, "a", "b", pod_cidr="10.0.0.0/24", pod_cidrs=("10.0.0.0/24",))
    add(cluster, "c")
    cluster.client.delete(Node, "a")
    cluster.advance(60)
    assert networks(cluster, "c") == []
    cluster.client.delete(Node, "b")
    cluster.settle()
    assert networks(cluster, "c") == ["10.0.0.0/24"]


def test_exhausted_family_leaks_nothing_of_the_other(cluster: Cluster) -> None:
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


def test_failed_write_is_retried_with_the_same_cidr(cluster: Cluster) -> None:
    start(cluster)
    cluster.faults.fail("patch", "nodes", times=3)
    add(cluster, "a", "b")
    cluster.advance(10)
    assert sorted(networks(cluster, "a") + networks(cluster, "b")) == ["10.0.0.0/24", "10.0.1.0/24"]
    assert event_messages(cluster, "CIDRAssignmentFailed")


def test_lost_response_does_not_leak_the_cidr(cluster: Cluster) -> None:
    start(cluster, "10.0.0.0/23")
    cluster.faults.lose_answers("patch", "nodes", times=2)
    add(cluster, "a", "b")
    cluster.advance(10)
    assert sorted(networks(cluster, "a") + networks(cluster, "b")) == ["10.0.0.0/24", "10.0.1.0/24"]


def test_node_with_a_foreign_cidr_is_ignored(cluster: Cluster) -> None:
    add(cluster, "odd", pod_cidr="192.168.0.0/24", pod_cidrs=("192.168.0.0/24",))
    loop = start(cluster)
    add(cluster, "a")
    assert networks(cluster, "a") == ["10.0.0.0/24"]
    assert "out the range of cluster cidr 10.0.0.0/22" in loop.status().last_error
    cluster.client.delete(Node, "odd")
    cluster.settle()


def test_restarted_controller_assigns_no_cidr_twice(cluster: Cluster) -> None:
    first = start(cluster)
    add(cluster, "a", "b")
    cluster.client.delete(Node, "a")
    cluster.stop(first)
    cluster.start(node_ipam.wire)
    add(cluster, "c", "d")
    assert networks(cluster, "b") == ["10.0.1.0/24"]
    assert (networks(cluster, "c"), networks(cluster, "d")) == (["10.0.0.0/24"], ["10.0.2.0/24"])


def test_deleted_node_is_forgotten(cluster: Cluster) -> None:
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
def test_invalid_flags_are_rejected(cluster: Cluster, flags: dict[str, Any], why: str) -> None:
    configure(cluster, allocate_node_cidrs=True, **flags)
    with pytest.raises(InvalidControllers, match=why):
        node_ipam.wire(cluster.context)
