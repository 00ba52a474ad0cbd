# SPDX-License-Identifier: Apache-2.0
"""Tests of nodes that are stopped, partitioned and healed, and of restarted kubelets."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.meta.conditions import find_condition
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.kubelet.node_status.served_nodes import SHUTTING_DOWN, STATE_ANNOTATION
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import condition_tuple, container, get, is_gone, new_agent, put, runs, state


def set_state(cluster: Cluster, node: str, state: str | None) -> None:
    cluster.client.patch(Node, node, {"metadata": {"annotations": {STATE_ANNOTATION: state}}})
    cluster.settle()


def renewed(cluster: Cluster, node: str = "n1") -> str:
    return str(cluster.client.get(Lease, node, "kube-node-lease").spec.renew_time)


def test_stopped_node_sends_no_heartbeats(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    set_state(cluster, "n1", "stopped")
    before, other = renewed(cluster), renewed(cluster, "n2")
    cluster.advance(minutes=2)
    assert renewed(cluster) == before
    assert renewed(cluster, "n2") > other
    set_state(cluster, "n1", None)
    assert renewed(cluster) > before


def test_returned_node_updates_its_status_immediately(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    set_state(cluster, "n1", "partitioned")
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    patch = {"status": {"conditions": [lost]}}
    cluster.client.patch(Node, "n1", patch, subresource="status", type="application/strategic-merge-patch+json")
    set_state(cluster, "n1", None)
    said = {one.type: one.status for one in cluster.client.get(Node, "n1").status.conditions}
    assert said["Ready"] == "True"


def test_pods_of_a_stopped_node_are_unchanged_and_restart_with_it(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    put(cluster, "once", restart_policy="Never")
    set_state(cluster, "n1", "stopped")
    assert state(get(cluster)) == "running"
    cluster.advance(minutes=1)
    set_state(cluster, "n1", None)
    pod = get(cluster)
    assert (state(pod), container(pod).restart_count) == ("running", 1)
    last = container(pod).last_state.terminated
    assert last is not None
    assert (last.exit_code, last.reason) == (255, "Unknown")
    assert get(cluster, "once").status.phase == "Failed"
    assert [event.message for event in cluster.events(reason="SandboxChanged")] == [
        "Pod sandbox changed, it will be killed and re-created."
    ]


def test_init_containers_run_again_after_a_stop(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, init_containers=(runs("sleep", "3", name="init"),))
    cluster.advance(4)
    set_state(cluster, "n1", "stopped")
    set_state(cluster, "n1", None)
    assert state(get(cluster), "init") == "running"
    cluster.advance(4)
    assert state(get(cluster)) == "running"


def test_pod_deleted_during_a_partition_terminates_after_healing(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    set_state(cluster, "n1", "partitioned")
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(minutes=5)
    assert not is_gone(cluster)
    set_state(cluster, "n1", None)
    assert is_gone(cluster)


def test_containers_of_a_partitioned_node_keep_running(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, restart_policy="Never", containers=(runs("sleep", "30"),))
    set_state(cluster, "n1", "partitioned")
    cluster.advance(minutes=1)
    assert get(cluster).status.phase == "Running"
    set_state(cluster, "n1", None)
    pod = get(cluster)
    assert pod.status.phase == "Succeeded"
    end = container(pod).state.terminated
    assert end is not None
    assert end.finished_at is not None
    assert end.started_at is not None
    assert end.finished_at > end.started_at


def test_restarted_kubelet_restores_pod_states(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    put(cluster)
    put(cluster, "done", restart_policy="Never", containers=(runs("true"),))
    put(cluster, "soon", restart_policy="Never", containers=(runs("sleep", "100"),))
    put(cluster, "crashing", containers=(runs("false"),))
    before = {name: get(cluster, name) for name in ("pod", "done", "soon")}
    for loop in fleet.loops:
        cluster.stop(loop)
    cluster.advance(50)
    new_agent(cluster, NodeAgentConfig(count=1))
    assert {name: get(cluster, name) for name in before} == before
    cluster.advance(51)
    assert get(cluster, "soon").status.phase == "Succeeded"
    cluster.client.delete(Pod, "done", "default")
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    assert is_gone(cluster, "done")
    assert is_gone(cluster)
    assert container(get(cluster, "crashing")).restart_count > 1


def test_restarted_kubelet_restores_termination_states(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    put(cluster, containers=(runs("sh", "-c", "sleep 20; exit 3"),))
    cluster.advance(25)
    before = get(cluster)
    assert container(before).last_state.terminated is not None
    for loop in fleet.loops:
        cluster.stop(loop)
    new_agent(cluster, NodeAgentConfig(count=1))
    assert get(cluster) == before


def test_restarted_kubelet_reuses_no_address(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(2)
    put(cluster, "first")
    put(cluster, "second", node="n2")
    for loop in fleet.loops:
        cluster.stop(loop)
    for number in range(4):
        put(cluster, f"a{number}", node=f"n{2 - number % 2}")
    new_agent(cluster, NodeAgentConfig(count=2))
    pods = cluster.client.list("pods", "default").items
    assert len({pod.status.pod_ip for pod in pods}) == len(pods) == 6


def test_existing_nodes_count_as_registered(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(2)
    for loop in fleet.loops:
        cluster.stop(loop)
    cluster.advance(minutes=10)
    before = renewed(cluster)
    again = new_agent(cluster, NodeAgentConfig(count=3))
    cluster.run(again.wait_registered())
    assert [one.metadata.name for one in cluster.client.list("nodes").items] == ["n1", "n2", "n3"]
    assert renewed(cluster) > before


def test_real_node_with_the_same_name_is_ignored(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.add(builders.node("n1"))
    fleet = cluster.add_nodes(2)
    cluster.run(fleet.wait_registered())
    assert [one.metadata.name for one in cluster.client.list("leases", "kube-node-lease").items] == ["n2"]
    assert "node n1 cannot be simulated: a node with this name exists" in caplog.text


def test_deleted_node_is_not_recreated(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.client.delete(Node, "n1")
    cluster.advance(minutes=5)
    assert [one.metadata.name for one in cluster.client.list("nodes").items] == ["n2"]


def test_graceful_shutdown_terminates_critical_pods_last(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    slow = {"stop-delay": "15s"}
    put(cluster, "plain", script=slow)
    put(cluster, "critical", priority_class_name="system-node-critical", script={"stop-delay": "5s"})
    set_state(cluster, "n1", SHUTTING_DOWN)
    ready = find_condition(cluster.client.get(Node, "n1").status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", "KubeletNotReady", "node is shutting down")
    put(cluster, "late")
    assert (get(cluster, "late").status.reason, get(cluster, "late").status.message) == (
        "NodeShutdown",
        "Pod was rejected: Pod was rejected as the node is shutting down.",
    )
    cluster.advance(16)
    plain = get(cluster, "plain")
    assert (plain.status.phase, plain.status.reason) == ("Failed", "Terminated")
    assert plain.status.message == "Pod was terminated in response to imminent node shutdown."
    assert condition_tuple(plain, "DisruptionTarget")[:2] == ("True", "TerminationByKubelet")
    assert get(cluster, "critical").status.phase == "Running"
    cluster.advance(15)
    assert get(cluster, "critical").status.phase == "Failed"
    set_state(cluster, "n1", None)
    put(cluster, "next")
    assert get(cluster, "next").status.phase == "Running"
