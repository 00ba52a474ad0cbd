# SPDX-License-Identifier: Apache-2.0
"""Tests of nodes that are silent, recover, or report problems: conditions, taints, labels and pods."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import conflict
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.controllers import node_lifecycle
from kubeloop.testing import Cluster
from tests.controllers.nodes import LEASES, SimulatedNodes, configure


@pytest.fixture
def env(cluster: Cluster) -> SimulatedNodes:
    return SimulatedNodes(cluster)


def start(env: SimulatedNodes) -> SimulatedNodes:
    env.cluster.start(node_lifecycle.wire)
    env.advance(1)
    return env


# Signs of life


def test_silent_node_becomes_unknown_after_the_grace_period(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.advance(49)
    assert env.condition("a").status == "True"
    env.advance(10)
    ready = env.condition("a")
    assert (ready.status, ready.reason) == ("Unknown", "NodeStatusUnknown")
    assert ready.message == "Kubelet stopped posting node status."
    assert env.condition("a", "MemoryPressure").status == "Unknown"
    assert env.condition("a", "PIDPressure").status == "Unknown"
    assert env.condition("b").status == "True"


def test_network_unavailable_condition_is_not_changed(env: SimulatedNodes) -> None:
    env.add("a", "b")
    env.report("a", NetworkUnavailable="False")
    start(env)
    env.silence("a")
    env.advance(80)
    assert env.condition("a").status == "Unknown"
    assert env.condition("a", "NetworkUnavailable").status == "False"


def test_new_node_has_a_startup_grace_period(env: SimulatedNodes) -> None:
    env.add("b")
    env.add("a", reports=False)
    start(env)
    env.advance(58)
    assert not env.node("a").status.conditions
    env.advance(10)
    ready = env.condition("a")
    assert (ready.status, ready.reason) == ("Unknown", "NodeStatusNeverUpdated")
    assert ready.message == "Kubelet never posted node status."
    assert ready.last_heartbeat_time == env.node("a").metadata.creation_timestamp


def test_lease_renewal_counts_as_heartbeat(env: SimulatedNodes) -> None:
    env.add("b")
    env.add("a", reports=False)
    env.living.add("a")
    start(env)
    env.advance(300)
    assert not env.node("a").status.conditions


def test_status_update_counts_as_heartbeat(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    for _ in range(5):
        env.advance(40)
        env.report("a")
    assert env.condition("a").status == "True"


def test_grace_period_is_set_by_flag(env: SimulatedNodes) -> None:
    configure(env.cluster, node_monitor_grace_period=12.0, node_monitor_period=1.0)
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.advance(20)
    assert env.condition("a").status == "Unknown"


def test_stale_lease_cache_does_not_fail_a_node(env: SimulatedNodes) -> None:
    cluster = env.cluster
    env.add("a", "b")
    start(env)
    cluster.faults.delay(200, "watch", "leases", times=None)
    cluster.faults.drop_watches()
    env.advance(120)
    assert env.condition("a").status == "True"
    assert env.taints("a") == []


def test_conflicting_node_update_is_retried(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.cluster.faults.fail("patch", "nodes", conflict("", "nodes", "a"), name="a", times=1)
    env.advance(70)
    assert env.condition("a").status == "Unknown"


def test_node_with_unreadable_lease_is_not_failed(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.cluster.faults.fail("get", "leases", times=4)
    env.advance(59)
    assert env.condition("a").status == "True"
    env.advance(30)
    assert env.condition("a").status == "Unknown"


# Taints of conditions, and labels


@pytest.mark.parametrize(
    ("type", "status", "taint"),
    [
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
        ("DiskPressure", "True", "disk-pressure"),
        ("PIDPressure", "True", "pid-pressure"),
        ("NetworkUnavailable", "True", "network-unavailable"),
    ],
)
def test_condition_adds_a_no_schedule_taint(env: SimulatedNodes, type: str, status: str, taint: str) -> None:
    env.add("a", "b")
    start(env)
    assert env.taints("a", "NoSchedule") == []
    env.report("a", **{type: status})
    env.cluster.settle()
    assert env.taints("a", "NoSchedule") == [taint]
    env.report("a", NetworkUnavailable="False")
    env.cluster.settle()
    assert env.taints("a", "NoSchedule") == []


def test_cordoned_node_is_tainted_and_other_taints_are_kept(env: SimulatedNodes) -> None:
    env.add("a")
    start(env)
    own = [
        {"key": "mine", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "effect": "NoExecute"},
    ]
    env.cluster.client.patch(Node, "a", {"spec": {"unschedulable": True, "taints": own}})
    env.cluster.settle()
    assert env.taints("a", "NoSchedule") == ["mine", "unschedulable"]
    assert next(one for one in env.node("a").spec.taints if one.key.endswith("unschedulable")).time_added
    env.cluster.client.patch(Node, "a", {"spec": {"unschedulable": None}})
    env.cluster.settle()
    assert env.taints("a", "NoSchedule") == ["mine"]
    assert env.taints("a") == ["memory-pressure"]


def test_deprecated_labels_are_reconciled_in_the_taint_write(env: SimulatedNodes) -> None:
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "beos", "kubernetes.io/arch": "arm64"}
    env.add("a", labels=labels)
    before = int(env.node("a").metadata.resource_version)
    start(env)
    found = env.node("a").metadata.labels
    assert found["beta.kubernetes.io/os"] == "linux"
    assert found["beta.kubernetes.io/arch"] == "arm64"
    assert env.taints("a", "NoSchedule") == []
    assert int(env.node("a").metadata.resource_version) > before


def test_heartbeats_cause_no_writes(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    before = env.node("a").metadata.resource_version
    env.advance(600)
    assert env.node("a").metadata.resource_version == before


# Pods


def test_pods_of_a_silent_node_become_not_ready(env: SimulatedNodes) -> None:
    env.add("a", "b")
    env.run_pod("on-a", "a")
    env.run_pod("on-b", "b")
    start(env)
    env.silence("a")
    env.advance(70)
    ready = env.pod("on-a").status.conditions[0]
    assert (ready.type, ready.status) == ("Ready", "False")
    assert env.pod("on-b").status.conditions[0].status == "True"
    assert "Node is not ready" in env.told("NodeNotReady")
    assert "Node a status is now: NodeNotReady" in env.told("NodeNotReady")
    events = env.cluster.events(reason="NodeNotReady")
    assert {event.source.component for event in events} == {"node-controller"}
    assert {event.type for event in events if event.involved_object.kind == "Pod"} == {"Warning"}


def test_failed_pod_update_is_retried(env: SimulatedNodes) -> None:
    env.add("a", "b")
    env.run_pod("on-a", "a")
    start(env)
    env.silence("a")
    env.cluster.faults.fail("patch", "pods", times=2)
    env.advance(90)
    assert env.pod("on-a").status.conditions[0].status == "False"
    assert env.told("NodeNotReady").count("Node a status is now: NodeNotReady") == 1


def test_pod_bound_to_a_silent_node_is_not_ready(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.advance(70)
    made = {"type": "Ready", "status": "True"}
    env.cluster.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "late", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": "Running", "conditions": [made]},
        }
    )
    env.cluster.run(env.cluster.async_client.bind("late", "default", "a"))
    env.cluster.settle()
    assert next(one for one in env.pod("late").status.conditions if one.type == "Ready").status == "False"


def test_pods_of_a_node_that_reports_not_ready_are_unchanged(env: SimulatedNodes) -> None:
    env.add("a", "b")
    env.run_pod("on-a", "a")
    start(env)
    env.report("a", Ready="False")
    env.advance(30)
    assert env.pod("on-a").status.conditions[0].status == "True"
    assert env.told("NodeNotReady") == []


# Making pods leave


def test_silent_node_has_no_execute_taint_until_it_recovers(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.advance(70)
    assert env.taints("a") == ["unreachable"]
    assert env.taints("a", "NoSchedule") == ["unreachable"]
    assert env.node("a").spec.taints[-1].time_added is not None
    env.revive("a")
    env.advance(10)
    assert env.node("a").spec.taints == ()


def test_no_execute_taint_follows_the_condition(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.report("a", Ready="False")
    env.advance(10)
    assert env.taints("a") == ["not-ready"]
    env.silence("a")
    env.advance(70)
    assert env.taints("a") == ["unreachable"]
    env.living.add("a")
    env.beat()
    env.report("a", Ready="False")
    env.advance(10)
    assert env.taints("a") == ["not-ready"]


def test_removed_taint_is_restored(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.advance(70)
    env.cluster.client.patch(Node, "a", {"spec": {"taints": None}})
    env.advance(30)
    assert env.taints("a") == ["unreachable"]


def test_taints_survive_concurrent_writes(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.advance(45)
    env.cluster.faults.conflict("patch", times=3)
    env.advance(40)
    assert env.taints("a") == ["unreachable"]


# Coming and going


def test_node_registration_and_removal_record_events(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    uid = env.node("a").metadata.uid
    assert "Node a event: Registered Node a in Controller" in env.told("RegisteredNode")
    env.cluster.client.delete(Node, "a")
    env.silence("a")
    env.advance(10)
    (gone,) = env.cluster.events(reason="RemovingNode")
    assert gone.message == "Node a event: Removing Node a from Controller"
    assert gone.involved_object.uid == uid


def test_recreated_node_starts_from_scratch(env: SimulatedNodes) -> None:
    env.add("a", "b")
    start(env)
    env.silence("a")
    env.advance(70)
    env.cluster.client.delete(Node, "a")
    env.cluster.client.delete(Lease, "a", LEASES)
    env.add("a")
    env.advance(20)
    assert env.condition("a").status == "True"
    assert env.taints("a") == []


def test_restarted_controller_restarts_the_grace_period(env: SimulatedNodes) -> None:
    cluster = env.cluster
    env.add("a", "b")
    first = cluster.start(node_lifecycle.wire)
    env.silence("a")
    env.advance(40)
    cluster.stop(first)
    cluster.start(node_lifecycle.wire)
    env.advance(45)
    assert env.condition("a").status == "True"
    env.advance(20)
    assert env.condition("a").status == "Unknown"


def test_deleted_pods_are_not_retried(env: SimulatedNodes) -> None:
    env.add("a", "b")
    env.run_pod("on-a", "a")
    start(env)
    env.cluster.client.delete(Pod, "on-a", "default", grace_seconds=0)
    env.silence("a")
    env.advance(70)
    assert [one for one in env.told("NodeNotReady") if one == "Node is not ready"] == []
