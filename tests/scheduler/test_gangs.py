# SPDX-License-Identifier: Apache-2.0
"""Tests of gang scheduling: the pods of a group get nodes together, or none does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubeloop.api.generated.core_v1 import PodSchedulingGate
from kubeloop.api.generated.scheduling_v1 import PriorityClass
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, metadata
from tests.scheduler.cluster_objects import unschedulable_message
from tests.scheduler.gangs import (
    add_nodes,
    basic_group,
    bound,
    gang,
    gated,
    group_condition,
    member,
    start_scheduler,
)


@pytest.fixture(name="cluster")
def cluster_with_groups(make_cluster: Callable[..., Cluster]) -> Cluster:
    found = make_cluster(**gated())
    start_scheduler(found)
    return found


def test_gang_is_bound_once_its_minimum_exists(cluster: Cluster) -> None:
    add_nodes(cluster, "one", "two")
    cluster.add(gang(least=3), member("a"), member("b"))
    cluster.advance(minutes=10)
    assert bound(cluster) == {}
    cluster.add(member("c"))
    cluster.settle()
    assert set(bound(cluster)) == {"a", "b", "c"}
    told = group_condition(cluster)
    assert told is not None
    assert (told.status, told.reason, told.message) == ("True", "Scheduled", "")


def test_gang_that_does_not_fit_as_a_whole_gets_no_node(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="2")
    cluster.add(gang(least=3), member("a"), member("b"), member("c"))
    cluster.settle()
    assert bound(cluster) == {}
    told = group_condition(cluster)
    assert told is not None
    assert (told.status, told.reason) == ("False", "Unschedulable")
    assert told.message.startswith("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining")
    assert unschedulable_message(cluster, "a").startswith("pod group is unschedulable, minCount (3) cannot be")
    assert unschedulable_message(cluster, "c").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    add_nodes(cluster, "two")
    cluster.advance(minutes=1)
    assert set(bound(cluster)) == {"a", "b", "c"}


def test_pods_wait_for_their_group(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="4")
    cluster.add(member("a"), member("b"))
    cluster.advance(minutes=10)
    assert bound(cluster) == {}
    cluster.add(gang(least=2))
    cluster.settle()
    assert set(bound(cluster)) == {"a", "b"}


def test_gang_needs_only_its_minimum(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="2")
    cluster.add(gang(least=2), *(member(name) for name in "abc"))
    cluster.settle()
    assert len(bound(cluster)) == 2
    add_nodes(cluster, "two")
    cluster.advance(minutes=1)
    assert set(bound(cluster)) == {"a", "b", "c"}


def test_group_that_is_no_gang_is_scheduled_pod_by_pod(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="1")
    cluster.add(basic_group(), member("a"), member("b"))
    cluster.settle()
    assert len(bound(cluster)) == 1
    told = group_condition(cluster)
    assert told is not None
    assert told.status == "True"


def test_smaller_minimum_lets_a_waiting_gang_go(cluster: Cluster) -> None:
    add_nodes(cluster, "one")
    cluster.add(gang(least=3), member("a"), member("b"))
    cluster.settle()
    policy = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    cluster.client.patch(PodGroup, "gang", policy, "default")
    cluster.settle()
    assert set(bound(cluster)) == {"a", "b"}


def test_deleted_pod_does_not_count(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="4")
    cluster.add(gang(least=3), member("a"), member("b"))
    cluster.client.delete("pods", "a", "default")
    cluster.settle()
    cluster.add(member("c"))
    cluster.advance(minutes=10)
    assert bound(cluster) == {}
    cluster.add(member("d"))
    cluster.settle()
    assert set(bound(cluster)) == {"b", "c", "d"}


def test_gated_pod_holds_its_gang_back(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="4")
    cluster.add(gang(least=2), member("a"), member("b", scheduling_gates=(PodSchedulingGate(name="x"),)))
    cluster.advance(minutes=1)
    assert bound(cluster) == {}
    cluster.client.patch("pods", "b", {"spec": {"schedulingGates": None}}, "default")
    cluster.settle()
    assert set(bound(cluster)) == {"a", "b"}


def test_gang_counts_pods_that_already_have_a_node(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="4")
    cluster.add(gang(least=2), member("a", node_name="one"), member("b"))
    cluster.settle()
    assert bound(cluster) == {"a": "one", "b": "one"}


def test_pods_of_other_priorities_are_an_error(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="4")
    cluster.add(PriorityClass(metadata=metadata("high"), value=7))
    cluster.add(gang(least=2), member("a"), member("b", priority_class_name="high"))
    cluster.settle()
    assert bound(cluster) == {}
    message = "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0"
    told = group_condition(cluster)
    assert told is not None
    assert (told.status, told.reason, told.message) == ("False", "SchedulerError", message)
    assert unschedulable_message(cluster, "a") == message


def test_two_gangs_do_not_block_each_other(cluster: Cluster) -> None:
    add_nodes(cluster, "one", "two", cpu="2")
    cluster.add(gang("first", 3), gang("second", 3))
    for number in range(3):
        cluster.add(member(f"f{number}", "first"), member(f"s{number}", "second"))
    cluster.settle()
    assert len(bound(cluster)) == 3
    winner = next(iter(bound(cluster)))[0]
    assert set(bound(cluster)) == {f"{winner}{number}" for number in range(3)}
    for number in range(3):
        cluster.client.delete("pods", f"{winner}{number}", "default", grace_seconds=0)
    cluster.advance(minutes=1)
    loser = "s" if winner == "f" else "f"
    assert set(bound(cluster)) == {f"{loser}{number}" for number in range(3)}


def test_gang_without_nodes_waits_for_them(cluster: Cluster) -> None:
    cluster.add(gang(least=2), member("a"), member("b"))
    cluster.settle()
    assert unschedulable_message(cluster, "a") == "no nodes available to schedule pods"
    add_nodes(cluster, "one")
    cluster.advance(minutes=1)
    assert set(bound(cluster)) == {"a", "b"}


def test_restarted_scheduler_goes_on(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**gated())
    first = start_scheduler(cluster)
    add_nodes(cluster, "one")
    cluster.add(gang(least=3), *(member(name) for name in "abc"))
    cluster.settle()
    cluster.stop(first)
    add_nodes(cluster, "two")
    cluster.settle()
    assert bound(cluster) == {}
    start_scheduler(cluster)
    cluster.settle()
    assert set(bound(cluster)) == {"a", "b", "c"}


def test_without_the_gate_the_field_is_dropped_and_pods_run(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    cluster.start(wire)
    add_nodes(cluster, "one")
    cluster.add(member("a"))
    cluster.settle()
    assert bound(cluster) == {"a": "one"}
    assert cluster.client.get("pods", "a", "default").spec.scheduling_group is None
