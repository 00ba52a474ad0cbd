# SPDX-License-Identifier: Apache-2.0
"""Pods of higher priority get room, at the least cost to others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.meta.conditions import find_condition
from kubeloop.scheduler.config.configuration import ProfileConfig, SchedulerConfig, default_profile
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.scheduler import Scheduler, wire
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import asking, join, node_of, unschedulable_message


@pytest.fixture
def full(cluster: Cluster) -> Cluster:
    """Classes of priority, and a scheduler."""
    cluster.start(wire)
    make_classes(cluster)
    return cluster


def make_classes(cluster: Cluster) -> None:
    for name, value in (("low", 10), ("middle", 50), ("high", 100)):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        cluster.client.create({**kind, "value": value})
    cluster.client.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "patient"},
            "value": 100,
            "preemptionPolicy": "Never",
        }
    )


def of(priority: str, cpu: str = "2", **spec: Any) -> dict[str, Any]:
    return asking(cpu, priority_class_name=priority, termination_grace_period_seconds=0, **spec)


def run(cluster: Cluster, name: str, node_name: str, priority: str, cpu: str = "2", **labels: str) -> None:
    """A pod that runs on a node already."""
    cluster.add(pod(name, node=node_name, phase="Running", labels=labels, **of(priority, cpu)))


def is_gone(cluster: Cluster, name: str) -> bool:
    """Return True if a pod is deleted or terminating."""
    try:
        found = cluster.client.get("pods", name, "default")
    except NotFound:
        return True
    return found.metadata.deletion_timestamp is not None


def end(cluster: Cluster, name: str) -> None:
    cluster.client.delete("pods", name, "default", grace_seconds=0)


def test_lower_priority_pod_is_preempted(full: Cluster) -> None:
    join(full, node("one", cpu="2"))
    run(full, "victim", "one", "low")
    full.add(pod("important", **of("high")))
    full.settle()
    assert is_gone(full, "victim")
    (event,) = full.events(reason="Preempted")
    uid = full.client.get("pods", "important", "default").metadata.uid
    assert event.message == f"Preempted by pod {uid} on node one"
    assert event.involved_object.name == "victim"
    full.settle()
    assert node_of(full, "important") == "one"


def test_preempted_pod_has_a_condition_and_the_preemptor_a_nominated_node(full: Cluster) -> None:
    join(full, node("one", cpu="2"))
    spec = {**of("low"), "termination_grace_period_seconds": 30}
    full.add(pod("victim", node="one", phase="Running", **spec))
    full.add(pod("important", **of("high")))
    full.settle()
    victim = full.client.get("pods", "victim", "default")
    condition = find_condition(victim.status.conditions, "DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    waiting = full.client.get("pods", "important", "default")
    assert waiting.status.nominated_node_name == "one"
    assert unschedulable_message(full, "important") == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node one, "
        "preempting 1 victims"
    )
    end(full, "victim")
    full.settle()
    assert node_of(full, "important") == "one"
    assert full.client.get("pods", "important", "default").status.nominated_node_name == ""


def test_lowest_priority_victims_are_chosen_and_no_more_than_needed(full: Cluster) -> None:
    join(full, node("one", cpu="4"), node("two", cpu="4"))
    run(full, "a", "one", "middle", "2")
    run(full, "b", "one", "low", "2")
    run(full, "c", "two", "middle", "2")
    run(full, "d", "two", "middle", "2")
    full.add(pod("important", **of("high", "2")))
    full.settle()
    assert [name for name in "abcd" if is_gone(full, name)] == ["b"]
    assert node_of(full, "important") == "one"


def test_disruption_budget_is_respected_if_possible(full: Cluster) -> None:
    join(full, node("one", cpu="2"), node("two", cpu="2"))
    run(full, "protected", "one", "low", app="db")
    run(full, "other", "two", "low")
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    meta = {"name": "db", "namespace": "default"}
    selector = {"matchLabels": {"app": "db"}}
    full.client.create({**kind, "metadata": meta, "spec": {"minAvailable": 1, "selector": selector}})
    full.settle()
    full.add(pod("important", **of("high")))
    full.settle()
    assert is_gone(full, "other")
    assert not is_gone(full, "protected")


def test_pods_of_equal_priority_are_not_preempted(full: Cluster) -> None:
    join(full, node("one", cpu="2"))
    run(full, "first", "one", "high")
    full.add(pod("second", **of("high")))
    full.settle()
    assert not is_gone(full, "first")
    assert unschedulable_message(full, "second") == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )


def test_pod_with_preemption_policy_never_is_pending(full: Cluster) -> None:
    join(full, node("one", cpu="2"))
    run(full, "first", "one", "low")
    full.add(pod("second", **of("patient")))
    full.settle()
    assert not is_gone(full, "first")
    assert unschedulable_message(full, "second") == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )


def test_nominated_node_is_not_used_by_lower_priority_pods(full: Cluster) -> None:
    join(full, node("one", cpu="2"))
    spec = {**of("low"), "termination_grace_period_seconds": 30}
    full.add(pod("victim", node="one", phase="Running", **spec))
    full.add(pod("important", **of("high")))
    full.settle()
    full.add(pod("small", **of("low", "1")))
    end(full, "victim")
    full.settle()
    assert node_of(full, "important") == "one"
    assert node_of(full, "small") == ""


class SlowPreBind(Plugin):
    """Has to write something before a pod is bound, which takes long."""

    name = "SlowPreBind"

    def pre_bind_pre_flight(self, cycle: Any, node: str) -> bool:
        return bool(cycle.pod.priority < 100)

    async def pre_bind(self, cycle: Any, node: str) -> None:
        await asyncio.sleep(3600)


def test_waiting_pod_is_rejected_instead_of_deleted(cluster: Cluster) -> None:
    usual = default_profile()
    config = SchedulerConfig(
        (ProfileConfig(usual.scheduler_name, (*usual.plugin_names, "SlowPreBind"), weights=usual.weights),)
    )
    cluster.start(lambda context: Scheduler(context, config, PluginRegistry({"SlowPreBind": SlowPreBind})))
    make_classes(cluster)
    join(cluster, node("one", cpu="2"))
    cluster.add(pod("early", **of("low")))
    cluster.settle()
    cluster.add(pod("important", **of("high")))
    cluster.advance(seconds=5)
    assert (node_of(cluster, "important"), is_gone(cluster, "early"), node_of(cluster, "early")) == ("one", False, "")
