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
def world(cluster: Cluster) -> SimulatedNodes:
    return SimulatedNodes(cluster)


def start(world: SimulatedNodes) -> SimulatedNodes:
    world.cluster.start(node_lifecycle.wire)
    world.advance(1)
    return world


# Signs of life


def test_silent_node_becomes_unknown_after_the_grace_period(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(49)
    assert world.condition("a").status == "True"
    world.advance(10)
    ready = world.condition("a")
    assert (ready.status, ready.reason) == ("Unknown", "NodeStatusUnknown")
    assert ready.message == "Kubelet stopped posting node status."
    assert world.condition("a", "MemoryPressure").status == "Unknown"
    assert world.condition("a", "PIDPressure").status == "Unknown"
    assert world.condition("b").status == "True"


def test_network_unavailable_condition_is_not_changed(world: SimulatedNodes) -> None:
    world.add("a", "b")
    world.report("a", NetworkUnavailable="False")
    start(world)
    world.silence("a")
    world.advance(80)
    assert world.condition("a").status == "Unknown"
    assert world.condition("a", "NetworkUnavailable").status == "False"


def test_new_node_has_a_startup_grace_period(world: SimulatedNodes) -> None:
    world.add("b")
    world.add("a", reports=False)
    start(world)
    world.advance(58)
    assert not world.node("a").status.conditions
    world.advance(10)
    ready = world.condition("a")
    assert (ready.status, ready.reason) == ("Unknown", "NodeStatusNeverUpdated")
    assert ready.message == "Kubelet never posted node status."
    assert ready.last_heartbeat_time == world.node("a").metadata.creation_timestamp


def test_lease_renewal_counts_as_heartbeat(world: SimulatedNodes) -> None:
    world.add("b")
    world.add("a", reports=False)
    world.living.add("a")
    start(world)
    world.advance(300)
    assert not world.node("a").status.conditions


def test_status_update_counts_as_heartbeat(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    for _ in range(5):
        world.advance(40)
        world.report("a")
    assert world.condition("a").status == "True"


def test_grace_period_is_set_by_flag(world: SimulatedNodes) -> None:
    configure(world.cluster, node_monitor_grace_period=12.0, node_monitor_period=1.0)
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(20)
    assert world.condition("a").status == "Unknown"


def test_stale_lease_cache_does_not_fail_a_node(world: SimulatedNodes) -> None:
    cluster = world.cluster
    world.add("a", "b")
    start(world)
    cluster.faults.delay(200, "watch", "leases", times=None)
    cluster.faults.drop_watches()
    world.advance(120)
    assert world.condition("a").status == "True"
    assert world.taints("a") == []


def test_conflicting_node_update_is_retried(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.cluster.faults.fail("patch", "nodes", conflict("", "nodes", "a"), name="a", times=1)
    world.advance(70)
    assert world.condition("a").status == "Unknown"


def test_node_with_unreadable_lease_is_not_failed(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.cluster.faults.fail("get", "leases", times=4)
    world.advance(59)
    assert world.condition("a").status == "True"
    world.advance(30)
    assert world.condition("a").status == "Unknown"


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
def test_condition_adds_a_no_schedule_taint(world: SimulatedNodes, type: str, status: str, taint: str) -> None:
    world.add("a", "b")
    start(world)
    assert world.taints("a", "NoSchedule") == []
    world.report("a", **{type: status})
    world.cluster.settle()
    assert world.taints("a", "NoSchedule") == [taint]
    world.report("a", NetworkUnavailable="False")
    world.cluster.settle()
    assert world.taints("a", "NoSchedule") == []


def test_cordoned_node_is_tainted_and_other_taints_are_kept(world: SimulatedNodes) -> None:
    world.add("a")
    start(world)
    own = [
        {"key": "mine", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "effect": "NoExecute"},
    ]
    world.cluster.client.patch(Node, "a", {"spec": {"unschedulable": True, "taints": own}})
    world.cluster.settle()
    assert world.taints("a", "NoSchedule") == ["mine", "unschedulable"]
    assert next(one for one in world.node("a").spec.taints if one.key.endswith("unschedulable")).time_added
    world.cluster.client.patch(Node, "a", {"spec": {"unschedulable": None}})
    world.cluster.settle()
    assert world.taints("a", "NoSchedule") == ["mine"]
    assert world.taints("a") == ["memory-pressure"]


def test_deprecated_labels_are_reconciled_in_the_taint_write(world: SimulatedNodes) -> None:
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "beos", "kubernetes.io/arch": "arm64"}
    world.add("a", labels=labels)
    before = int(world.node("a").metadata.resource_version)
    start(world)
    found = world.node("a").metadata.labels
    assert found["beta.kubernetes.io/os"] == "linux"
    assert found["beta.kubernetes.io/arch"] == "arm64"
    assert world.taints("a", "NoSchedule") == []
    assert int(world.node("a").metadata.resource_version) > before


def test_heartbeats_cause_no_writes(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    before = world.node("a").metadata.resource_version
    world.advance(600)
    assert world.node("a").metadata.resource_version == before


# Pods


def test_pods_of_a_silent_node_become_not_ready(world: SimulatedNodes) -> None:
    world.add("a", "b")
    world.run_pod("on-a", "a")
    world.run_pod("on-b", "b")
    start(world)
    world.silence("a")
    world.advance(70)
    ready = world.pod("on-a").status.conditions[0]
    assert (ready.type, ready.status) == ("Ready", "False")
    assert world.pod("on-b").status.conditions[0].status == "True"
    assert "Node is not ready" in world.told("NodeNotReady")
    assert "Node a status is now: NodeNotReady" in world.told("NodeNotReady")
    events = world.cluster.events(reason="NodeNotReady")
    assert {event.source.component for event in events} == {"node-controller"}
    assert {event.type for event in events if event.involved_object.kind == "Pod"} == {"Warning"}


def test_failed_pod_update_is_retried(world: SimulatedNodes) -> None:
    world.add("a", "b")
    world.run_pod("on-a", "a")
    start(world)
    world.silence("a")
    world.cluster.faults.fail("patch", "pods", times=2)
    world.advance(90)
    assert world.pod("on-a").status.conditions[0].status == "False"
    assert world.told("NodeNotReady").count("Node a status is now: NodeNotReady") == 1


def test_pod_bound_to_a_silent_node_is_not_ready(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(70)
    made = {"type": "Ready", "status": "True"}
    world.cluster.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "late", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": "Running", "conditions": [made]},
        }
    )
    world.cluster.run(world.cluster.async_client.bind("late", "default", "a"))
    world.cluster.settle()
    assert next(one for one in world.pod("late").status.conditions if one.type == "Ready").status == "False"


def test_pods_of_a_node_that_reports_not_ready_are_unchanged(world: SimulatedNodes) -> None:
    world.add("a", "b")
    world.run_pod("on-a", "a")
    start(world)
    world.report("a", Ready="False")
    world.advance(30)
    assert world.pod("on-a").status.conditions[0].status == "True"
    assert world.told("NodeNotReady") == []


# Making pods leave


def test_silent_node_has_no_execute_taint_until_it_recovers(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(70)
    assert world.taints("a") == ["unreachable"]
    assert world.taints("a", "NoSchedule") == ["unreachable"]
    assert world.node("a").spec.taints[-1].time_added is not None
    world.revive("a")
    world.advance(10)
    assert world.node("a").spec.taints == ()


def test_no_execute_taint_follows_the_condition(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.report("a", Ready="False")
    world.advance(10)
    assert world.taints("a") == ["not-ready"]
    world.silence("a")
    world.advance(70)
    assert world.taints("a") == ["unreachable"]
    world.living.add("a")
    world.beat()
    world.report("a", Ready="False")
    world.advance(10)
    assert world.taints("a") == ["not-ready"]


def test_removed_taint_is_restored(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(70)
    world.cluster.client.patch(Node, "a", {"spec": {"taints": None}})
    world.advance(30)
    assert world.taints("a") == ["unreachable"]


def test_taints_survive_concurrent_writes(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(45)
    world.cluster.faults.conflict("patch", times=3)
    world.advance(40)
    assert world.taints("a") == ["unreachable"]


# Coming and going


def test_node_registration_and_removal_record_events(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    uid = world.node("a").metadata.uid
    assert "Node a event: Registered Node a in Controller" in world.told("RegisteredNode")
    world.cluster.client.delete(Node, "a")
    world.silence("a")
    world.advance(10)
    (gone,) = world.cluster.events(reason="RemovingNode")
    assert gone.message == "Node a event: Removing Node a from Controller"
    assert gone.involved_object.uid == uid


def test_recreated_node_starts_from_scratch(world: SimulatedNodes) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(70)
    world.cluster.client.delete(Node, "a")
    world.cluster.client.delete(Lease, "a", LEASES)
    world.add("a")
    world.advance(20)
    assert world.condition("a").status == "True"
    assert world.taints("a") == []


def test_restarted_controller_restarts_the_grace_period(world: SimulatedNodes) -> None:
    cluster = world.cluster
    world.add("a", "b")
    first = cluster.start(node_lifecycle.wire)
    world.silence("a")
    world.advance(40)
    cluster.stop(first)
    cluster.start(node_lifecycle.wire)
    world.advance(45)
    assert world.condition("a").status == "True"
    world.advance(20)
    assert world.condition("a").status == "Unknown"


def test_deleted_pods_are_not_retried(world: SimulatedNodes) -> None:
    world.add("a", "b")
    world.run_pod("on-a", "a")
    start(world)
    world.cluster.client.delete(Pod, "on-a", "default", grace_seconds=0)
    world.silence("a")
    world.advance(70)
    assert [one for one in world.told("NodeNotReady") if one == "Node is not ready"] == []
