# SPDX-License-Identifier: Apache-2.0
"""Tests of preemption by pod groups, and of pod groups as victims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from kubeloop.api.generated.scheduling_v1 import PriorityClass
from kubeloop.api.generated.scheduling_v1beta1 import DisruptionMode
from kubeloop.testing import Cluster, metadata, pod
from tests.scheduler.cluster_objects import asking, node_of
from tests.scheduler.gangs import (
    add_nodes,
    bound,
    gang,
    gated,
    group_condition,
    member,
    start_scheduler,
)

ALL = DisruptionMode(all=Raw(b"{}"))


@pytest.fixture(name="cluster")
def cluster_with_groups(make_cluster: Callable[..., Cluster]) -> Cluster:
    found = make_cluster(**gated())
    found.add(PriorityClass(metadata=metadata("high"), value=100))
    start_scheduler(found)
    return found


def important(name: str, cpu: str = "1", **spec: Any) -> Any:
    return member(name, "vital", cpu, priority_class_name="high", **spec)


def end_terminating_pods(cluster: Cluster) -> None:
    """Delete what the kubelet of a node would end."""
    for one in cluster.client.list("pods", "default").items:
        if one.metadata.deletion_timestamp is not None:
            cluster.client.delete("pods", one.metadata.name, "default", grace_seconds=0)
    cluster.advance(minutes=1)


def test_gang_preempts_what_it_needs_and_no_more(cluster: Cluster) -> None:
    add_nodes(cluster, "one", "two", cpu="2")
    cluster.add(*(pod(f"low{number}", **asking("1")) for number in range(4)))
    cluster.settle()
    assert len(bound(cluster)) == 4
    cluster.add(gang("vital", 3, priority_class_name="high"), *(important(name) for name in "abc"))
    cluster.settle()
    pods = {one.metadata.name: one for one in cluster.client.list("pods", "default").items}
    victims = [name for name, one in pods.items() if one.metadata.deletion_timestamp is not None]
    assert len(victims) == 3
    told = group_condition(cluster, "vital")
    assert told is not None
    assert (told.status, told.reason) == ("False", "Unschedulable")
    assert told.message.endswith("pod group preemption: found a placement for podgroup, preempting 3 victims")
    assert all(pods[name].status.nominated_node_name for name in "abc")
    disruption = next(one for one in pods[victims[0]].status.conditions if one.type == "DisruptionTarget")
    assert disruption.message == "default-scheduler: preempting to accommodate a higher priority podgroup"
    end_terminating_pods(cluster)
    assert {"a", "b", "c"} <= set(bound(cluster))
    assert len(bound(cluster)) == 4


def test_gang_that_does_not_fit_anyway_preempts_nothing(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="2")
    cluster.add(pod("low", **asking("1")))
    cluster.settle()
    cluster.add(gang("vital", 3, priority_class_name="high"), *(important(name) for name in "abc"))
    cluster.advance(minutes=1)
    assert bound(cluster) == {"low": "one"}
    assert cluster.client.get("pods", "low", "default").metadata.deletion_timestamp is None


def test_gang_without_lower_pods_finds_no_victims(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="2")
    cluster.add(gang("gang", 3), *(member(name) for name in "abc"))
    cluster.settle()
    told = group_condition(cluster)
    assert told is not None
    assert told.message == (
        "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, "
        "pod group preemption: No preemption victims found for incoming preemptor"
    )


def test_gang_that_never_preempts_waits(cluster: Cluster) -> None:
    add_nodes(cluster, "one", cpu="2")
    cluster.add(pod("low", **asking("1")))
    cluster.settle()
    cluster.add(PriorityClass(metadata=metadata("calm"), value=50, preemption_policy="Never"))
    calm = [member(name, "vital", priority_class_name="calm") for name in "ab"]
    cluster.add(gang("vital", 2, priority_class_name="calm"), *calm)
    cluster.settle()
    assert bound(cluster) == {"low": "one"}
    told = group_condition(cluster, "vital")
    assert told is not None
    assert told.message.endswith("pod group preemption: not eligible due to preemptionPolicy=Never.")


def test_group_that_is_disrupted_as_a_whole_goes_as_a_whole(cluster: Cluster) -> None:
    add_nodes(cluster, "one", "two", cpu="2")
    cluster.add(gang("whole", 2, disruption_mode=ALL), member("x", "whole", "2"), member("y", "whole", "2"))
    cluster.settle()
    assert set(bound(cluster)) == {"x", "y"}
    cluster.add(gang("vital", 1, priority_class_name="high"), important("a"))
    cluster.settle()
    going = {
        one.metadata.name
        for one in cluster.client.list("pods", "default").items
        if one.metadata.deletion_timestamp is not None
    }
    assert going == {"x", "y"}
    end_terminating_pods(cluster)
    assert node_of(cluster, "a") in ("one", "two")


def test_single_pod_evicts_a_whole_group(cluster: Cluster) -> None:
    add_nodes(cluster, "one", "two", cpu="2")
    cluster.add(gang("whole", 2, disruption_mode=ALL), member("x", "whole", "2"), member("y", "whole", "2"))
    cluster.settle()
    cluster.add(pod("a", **asking("1", priority_class_name="high")))
    cluster.settle()
    pods = cluster.client.list("pods", "default").items
    assert {one.metadata.name for one in pods if one.metadata.deletion_timestamp is not None} == {"x", "y"}
