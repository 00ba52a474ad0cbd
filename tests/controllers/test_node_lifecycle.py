"""Nodes that fall silent, come back, or say that something is wrong: their conditions, taints, labels and pods."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import conflict
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.controllers import node_lifecycle
from kubeloop.testing import Cluster
from tests.controllers.node_world import LEASES, NodeWorld, configure


@pytest.fixture
def world(cluster: Cluster) -> NodeWorld:
    return NodeWorld(cluster)


def start(world: NodeWorld) -> NodeWorld:
    world.cluster.start(node_lifecycle.wire)
    world.advance(1)
    return world


# Signs of life


def test_silent_node_is_unknown_after_the_grace_period_and_not_before(world: NodeWorld) -> None:
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


def test_network_is_not_the_kubelets_to_report(world: NodeWorld) -> None:
    world.add("a", "b")
    world.report("a", NetworkUnavailable="False")
    start(world)
    world.silence("a")
    world.advance(80)
    assert world.condition("a").status == "Unknown"
    assert world.condition("a", "NetworkUnavailable").status == "False"


def test_node_that_never_reports_has_its_startup_grace_period(world: NodeWorld) -> None:
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


def test_node_that_renews_its_lease_is_alive_without_ever_reporting(world: NodeWorld) -> None:
    world.add("b")
    world.add("a", reports=False)
    world.living.add("a")
    start(world)
    world.advance(300)
    assert not world.node("a").status.conditions


def test_status_alone_is_a_sign_of_life(world: NodeWorld) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    for _ in range(5):
        world.advance(40)
        world.report("a")
    assert world.condition("a").status == "True"


def test_grace_period_is_the_flags(world: NodeWorld) -> None:
    configure(world.cluster, node_monitor_grace_period=12.0, node_monitor_period=1.0)
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(20)
    assert world.condition("a").status == "Unknown"


def test_node_is_not_given_up_while_the_cache_of_leases_is_behind(world: NodeWorld) -> None:
    cluster = world.cluster
    world.add("a", "b")
    start(world)
    cluster.faults.delay(200, "watch", "leases", times=None)
    cluster.faults.drop_watches()
    world.advance(120)
    assert world.condition("a").status == "True"
    assert world.taints("a") == []


def test_what_became_of_a_node_that_changes_meanwhile_is_written_at_the_next_try(world: NodeWorld) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.cluster.faults.fail("patch", "nodes", conflict("", "nodes", "a"), name="a", times=1)
    world.advance(70)
    assert world.condition("a").status == "Unknown"


def test_node_whose_lease_can_not_be_asked_for_is_spared_until_it_can(world: NodeWorld) -> None:
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
def test_condition_keeps_new_pods_away(world: NodeWorld, type: str, status: str, taint: str) -> None:
    world.add("a", "b")
    start(world)
    assert world.taints("a", "NoSchedule") == []
    world.report("a", **{type: status})
    world.cluster.settle()
    assert world.taints("a", "NoSchedule") == [taint]
    world.report("a", NetworkUnavailable="False")
    world.cluster.settle()
    assert world.taints("a", "NoSchedule") == []


def test_cordoned_node_is_tainted_and_taints_of_others_stay(world: NodeWorld) -> None:
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


def test_labels_of_old_names_follow_the_new_ones_in_the_same_write_as_taints(world: NodeWorld) -> None:
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "beos", "kubernetes.io/arch": "arm64"}
    world.add("a", labels=labels)
    before = int(world.node("a").metadata.resource_version)
    start(world)
    found = world.node("a").metadata.labels
    assert found["beta.kubernetes.io/os"] == "linux"
    assert found["beta.kubernetes.io/arch"] == "arm64"
    assert world.taints("a", "NoSchedule") == []
    assert int(world.node("a").metadata.resource_version) > before


def test_mere_signs_of_life_cause_no_writes(world: NodeWorld) -> None:
    world.add("a", "b")
    start(world)
    before = world.node("a").metadata.resource_version
    world.advance(600)
    assert world.node("a").metadata.resource_version == before


# Pods


def test_pods_of_a_silent_node_are_no_longer_ready(world: NodeWorld) -> None:
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


def test_pod_that_could_not_be_marked_is_marked_at_the_next_look(world: NodeWorld) -> None:
    world.add("a", "b")
    world.run_pod("on-a", "a")
    start(world)
    world.silence("a")
    world.cluster.faults.fail("patch", "pods", times=2)
    world.advance(90)
    assert world.pod("on-a").status.conditions[0].status == "False"
    assert world.told("NodeNotReady").count("Node a status is now: NodeNotReady") == 1


def test_pod_that_comes_to_a_silent_node_is_not_ready_either(world: NodeWorld) -> None:
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


def test_pods_of_a_node_that_says_itself_that_it_is_not_ready_are_left_to_it(world: NodeWorld) -> None:
    world.add("a", "b")
    world.run_pod("on-a", "a")
    start(world)
    world.report("a", Ready="False")
    world.advance(30)
    assert world.pod("on-a").status.conditions[0].status == "True"
    assert world.told("NodeNotReady") == []


# Making pods leave


def test_silent_node_is_tainted_so_that_pods_leave_and_no_longer_when_it_is_back(world: NodeWorld) -> None:
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


def test_reason_to_leave_changes_at_once_with_the_condition(world: NodeWorld) -> None:
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


def test_taint_that_somebody_removes_comes_back(world: NodeWorld) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(70)
    world.cluster.client.patch(Node, "a", {"spec": {"taints": None}})
    world.advance(30)
    assert world.taints("a") == ["unreachable"]


def test_taints_survive_writes_of_others_in_between(world: NodeWorld) -> None:
    world.add("a", "b")
    start(world)
    world.silence("a")
    world.advance(45)
    world.cluster.faults.conflict("patch", times=3)
    world.advance(40)
    assert world.taints("a") == ["unreachable"]


# Coming and going


def test_coming_and_going_are_told(world: NodeWorld) -> None:
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


def test_node_of_the_same_name_begins_anew(world: NodeWorld) -> None:
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


def test_successor_gives_silent_nodes_their_whole_grace_period_again(world: NodeWorld) -> None:
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


def test_deleted_pods_are_no_reason_to_try_again(world: NodeWorld) -> None:
    world.add("a", "b")
    world.run_pod("on-a", "a")
    start(world)
    world.cluster.client.delete(Pod, "on-a", "default", grace_seconds=0)
    world.silence("a")
    world.advance(70)
    assert [one for one in world.told("NodeNotReady") if one == "Node is not ready"] == []
