# SPDX-License-Identifier: Apache-2.0
"""Tests of pod groups with topology constraints, and of composite pod groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubeloop.api.generated.scheduling_v1alpha3 import (
    CompositeGangSchedulingPolicy,
    CompositePodGroup,
    CompositePodGroupSchedulingConstraints,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupSpec,
)
from kubeloop.api.generated.scheduling_v1alpha3 import TopologyConstraint as CompositeTopologyConstraint
from kubeloop.api.generated.scheduling_v1alpha3 import WorkloadReference as CompositeWorkloadReference
from kubeloop.api.generated.scheduling_v1beta1 import (
    PodGroupSchedulingConstraints,
    TopologyConstraint,
    WorkloadReference,
)
from kubeloop.testing import Cluster, metadata
from tests.scheduler.gangs import (
    COMPOSITES,
    TOPOLOGY,
    add_nodes,
    bound,
    gang,
    gated,
    group_condition,
    member,
    start_scheduler,
)

IN_A_ZONE = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key="zone"),))


@pytest.fixture(name="cluster")
def cluster_with_topology(make_cluster: Callable[..., Cluster]) -> Cluster:
    found = make_cluster(**gated(TOPOLOGY))
    start_scheduler(found, TOPOLOGY)
    return found


def test_gang_gets_nodes_of_one_domain(cluster: Cluster) -> None:
    add_nodes(cluster, "a1", cpu="2", zone="a")
    add_nodes(cluster, "b1", "b2", cpu="2", zone="b")
    add_nodes(cluster, "elsewhere", cpu="8")
    cluster.add(gang(least=3, scheduling_constraints=IN_A_ZONE), *(member(name) for name in "pqr"))
    cluster.settle()
    assert set(bound(cluster)) == {"p", "q", "r"}
    assert set(bound(cluster).values()) == {"b1", "b2"}


def test_gang_prefers_the_domain_for_most_of_its_pods(cluster: Cluster) -> None:
    add_nodes(cluster, "a1", cpu="2", zone="a")
    add_nodes(cluster, "b1", cpu="4", zone="b")
    cluster.add(*(member(name) for name in "pqrs"), gang(least=2, scheduling_constraints=IN_A_ZONE))
    cluster.settle()
    assert bound(cluster) == dict.fromkeys("pqrs", "b1")


def test_gang_that_fits_in_no_domain_gets_no_node(cluster: Cluster) -> None:
    add_nodes(cluster, "a1", cpu="2", zone="a")
    add_nodes(cluster, "b1", cpu="2", zone="b")
    cluster.add(gang(least=3, scheduling_constraints=IN_A_ZONE), *(member(name) for name in "pqr"))
    cluster.settle()
    assert bound(cluster) == {}
    told = group_condition(cluster)
    assert told is not None
    assert told.message.startswith("pod group is unschedulable, 0/2 placements are available, first placement status: ")


def test_later_pods_follow_the_first_ones(cluster: Cluster) -> None:
    add_nodes(cluster, "a1", cpu="2", zone="a")
    cluster.add(gang(least=2, scheduling_constraints=IN_A_ZONE), member("p"), member("q"))
    cluster.settle()
    add_nodes(cluster, "b1", cpu="8", zone="b")
    cluster.add(member("r"))
    cluster.advance(minutes=1)
    assert bound(cluster) == {"p": "a1", "q": "a1"}
    add_nodes(cluster, "a2", cpu="2", zone="a")
    cluster.advance(minutes=1)
    assert bound(cluster) == {"p": "a1", "q": "a1", "r": "a2"}


def composite(name: str, least: int, **spec: Any) -> CompositePodGroup:
    policy = CompositePodGroupSchedulingPolicy(gang=CompositeGangSchedulingPolicy(min_group_count=least))
    ref = CompositeWorkloadReference(workload_name="work", template_name=name)
    whole = CompositePodGroupSpec(scheduling_policy=policy, workload_ref=ref, **spec)
    return CompositePodGroup(metadata=metadata(name, "default"), spec=whole)


def child(name: str, least: int = 2, **spec: Any) -> Any:
    ref = WorkloadReference(workload_name="work", template_name=name)
    return gang(name, least, parent_composite_pod_group_name="all", workload_ref=ref, **spec)


@pytest.fixture(name="hierarchy")
def cluster_with_composites(make_cluster: Callable[..., Cluster]) -> Cluster:
    found = make_cluster(**gated(COMPOSITES))
    start_scheduler(found, COMPOSITES)
    return found


def test_composite_group_is_bound_when_enough_groups_are_complete(hierarchy: Cluster) -> None:
    add_nodes(hierarchy, "one", cpu="4")
    hierarchy.add(composite("all", 2), child("x"), child("y"))
    hierarchy.add(member("x1", "x"), member("x2", "x"), member("y1", "y"))
    hierarchy.advance(minutes=10)
    assert bound(hierarchy) == {}
    hierarchy.add(member("y2", "y"))
    hierarchy.settle()
    assert set(bound(hierarchy)) == {"x1", "x2", "y1", "y2"}


def test_pods_wait_for_the_composite_group(hierarchy: Cluster) -> None:
    add_nodes(hierarchy, "one", cpu="4")
    hierarchy.add(child("x"), member("x1", "x"), member("x2", "x"))
    hierarchy.advance(minutes=10)
    assert bound(hierarchy) == {}
    hierarchy.add(composite("all", 1))
    hierarchy.settle()
    assert set(bound(hierarchy)) == {"x1", "x2"}


def test_composite_group_that_does_not_fit_gets_no_node(hierarchy: Cluster) -> None:
    add_nodes(hierarchy, "one", cpu="3")
    hierarchy.add(composite("all", 2), child("x"), child("y"))
    hierarchy.add(*(member(f"{group}{number}", group) for group in "xy" for number in range(2)))
    hierarchy.settle()
    assert bound(hierarchy) == {}
    add_nodes(hierarchy, "two", cpu="1")
    hierarchy.advance(minutes=1)
    assert len(bound(hierarchy)) == 4


def test_groups_get_domains_within_the_domain_of_their_composite_group(hierarchy: Cluster) -> None:
    for zone in "ab":
        for rack in "12":
            add_nodes(hierarchy, f"{zone}{rack}", cpu="2" if zone == "b" else "1", zone=zone, rack=f"{zone}{rack}")
    in_a_zone = CompositePodGroupSchedulingConstraints(topology=(CompositeTopologyConstraint(key="zone"),))
    in_a_rack = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
    hierarchy.add(composite("all", 2, scheduling_constraints=in_a_zone))
    hierarchy.add(child("x", scheduling_constraints=in_a_rack), child("y", scheduling_constraints=in_a_rack))
    hierarchy.add(*(member(f"{group}{number}", group) for group in "xy" for number in range(2)))
    hierarchy.settle()
    found = bound(hierarchy)
    assert len(found) == 4
    assert {found["x0"], found["y0"]} == {"b1", "b2"}
    assert found["x0"] == found["x1"]
    assert found["y0"] == found["y1"]
