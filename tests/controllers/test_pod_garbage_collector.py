# SPDX-License-Identifier: Apache-2.0
"""Tests of forced deletion of orphaned and terminated pods."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, Pod, PodStatus, Taint
from kubeloop.controllers import pod_garbage_collector
from kubeloop.testing import Cluster, node, pod

HELD = {"metadata": {"finalizers": ["example.com/held"]}}
OUT = (Taint(key="node.kubernetes.io/out-of-service", value="nodeshutdown", effect="NoExecute"),)


def start(cluster: Cluster, threshold: int = 12500) -> Cluster:
    config = type(cluster.context.config)(terminated_pod_gc_threshold=threshold)
    cluster.context = with_fields(cluster.context, config=config)
    cluster.start(pod_garbage_collector.wire)
    return cluster


def find(cluster: Cluster, name: str) -> Any:
    try:
        return cluster.client.get(Pod, name, "default")
    except NotFound:
        return None


def names(cluster: Cluster) -> list[str]:
    return [one.metadata.name for one in cluster.client.list(Pod, "default").items]


def hold(cluster: Cluster, name: str) -> None:
    cluster.client.patch(Pod, name, HELD, "default")


# Too many that have ended


def test_oldest_terminated_pods_above_the_threshold_are_deleted(cluster: Cluster) -> None:
    for number in range(5):
        cluster.add(pod(f"pod-{4 - number}", phase="Succeeded" if number % 2 else "Failed"))
        cluster.advance(1)
    cluster.add(pod("running", phase="Running"))
    start(cluster, threshold=2)
    assert names(cluster) == ["pod-0", "pod-1", "running"]


def test_evicted_pods_are_deleted_first_and_names_break_ties(cluster: Cluster) -> None:
    cluster.add(pod("old", phase="Failed"))
    cluster.advance(10)
    evicted = pod("evicted")
    cluster.add(Pod(metadata=evicted.metadata, spec=evicted.spec, status=PodStatus(phase="Failed", reason="Evicted")))
    cluster.add(pod("b", phase="Succeeded"), pod("a", phase="Succeeded"))
    start(cluster, threshold=3)
    assert names(cluster) == ["a", "b", "old"]


def test_zero_threshold_keeps_all(cluster: Cluster) -> None:
    cluster.add(*(pod(f"pod-{number}", phase="Succeeded") for number in range(4)))
    start(cluster, threshold=0).advance(60)
    assert len(names(cluster)) == 4


# Deleted nodes


def test_pods_of_a_deleted_node_fail_and_are_deleted_after_quarantine(cluster: Cluster) -> None:
    cluster.add(node("machine"), pod("pod", node="machine", phase="Running"))
    hold(cluster, "pod")
    start(cluster)
    cluster.client.delete(Node, "machine")
    cluster.advance(59)
    assert find(cluster, "pod").metadata.deletion_timestamp is None
    cluster.advance(2)
    found = find(cluster, "pod")
    assert found.metadata.deletion_timestamp is not None
    assert found.status.phase == "Failed"
    (condition,) = [one for one in found.status.conditions if one.type == "DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "DeletionByPodGC")
    assert condition.message == "PodGC: node no longer exists"
    assert condition.last_transition_time is not None
    assert condition.observed_generation == found.status.observed_generation == 1


def test_terminated_pod_of_a_deleted_node_keeps_its_phase(cluster: Cluster) -> None:
    cluster.add(node("machine"), pod("pod", node="machine", phase="Succeeded"))
    hold(cluster, "pod")
    cluster.client.delete(Node, "machine")
    start(cluster).advance(61)
    found = find(cluster, "pod")
    assert found.metadata.deletion_timestamp is not None
    assert found.status.phase == "Succeeded"


@pytest.mark.parametrize(
    "twice",
    [
        {"env": [{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]},
        {"ports": [{"containerPort": 93, "hostPort": 9376}, {"containerPort": 93, "hostPort": 9377}]},
    ],
)
def test_pod_with_duplicate_list_keys_is_deleted(cluster: Cluster, twice: dict[str, Any]) -> None:
    """Upstream: TestPodGcForPodsWithDuplicatedFieldKeys."""
    spec = {"nodeName": "gone", "containers": [{"name": "app", "image": "x", **twice}]}
    metadata = {"name": "twice", "namespace": "default", "finalizers": ["example.com/held"]}
    cluster.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    start(cluster).advance(minutes=2)
    found = find(cluster, "twice")
    assert (found.status.phase, found.metadata.deletion_timestamp is not None) == ("Failed", True)


def test_returned_node_keeps_its_pods(cluster: Cluster) -> None:
    cluster.add(node("machine"), pod("pod", node="machine", phase="Running"))
    start(cluster)
    cluster.client.delete(Node, "machine")
    cluster.advance(30)
    cluster.add(node("machine"))
    cluster.advance(120)
    assert find(cluster, "pod") is not None


def test_node_missing_only_in_the_cache_keeps_its_pods(cluster: Cluster) -> None:
    cluster.add(pod("pod", phase="Running"))
    cluster.client.bind("pod", "default", "machine")
    start(cluster)
    cluster.faults.fail("watch", "nodes", times=None)
    cluster.faults.fail("list", "nodes", times=None, optional=True)
    cluster.faults.drop_watches("nodes")
    cluster.add(node("machine"))
    cluster.advance(300)
    assert find(cluster, "pod") is not None


def test_failed_node_lookup_is_retried(cluster: Cluster) -> None:
    cluster.add(node("machine"), pod("pod", node="machine", phase="Running"))
    start(cluster)
    cluster.client.delete(Node, "machine")
    fault = cluster.faults.fail("get", "nodes", times=None)
    cluster.advance(100)
    assert find(cluster, "pod") is not None
    fault.times = 0
    cluster.advance(61)
    assert find(cluster, "pod") is None


# Being deleted, and stuck


def test_unscheduled_terminating_pod_is_deleted(cluster: Cluster) -> None:
    cluster.add(pod("pod"))
    hold(cluster, "pod")
    cluster.client.delete(Pod, "pod", "default")
    start(cluster)
    assert find(cluster, "pod").status.phase == "Failed"
    cluster.client.patch(Pod, "pod", {"metadata": {"finalizers": []}}, "default")
    cluster.advance(21)
    assert find(cluster, "pod") is None


@pytest.mark.parametrize(
    ("ready", "taints", "goes"), [(False, OUT, True), (True, OUT, False), (False, (), False), (True, (), False)]
)
def test_terminating_pod_on_an_out_of_service_node_is_deleted(
    cluster: Cluster, ready: bool, taints: tuple[Taint, ...], goes: bool
) -> None:
    cluster.add(node("machine", ready=ready, taints=taints), pod("pod", node="machine", phase="Running"))
    cluster.client.delete(Pod, "pod", "default", grace_seconds=1000)
    start(cluster).advance(60)
    assert (find(cluster, "pod") is None) == goes


def test_healthy_pods_are_kept(cluster: Cluster) -> None:
    cluster.add(node("machine"), pod("bound", node="machine", phase="Running"), pod("waiting"))
    start(cluster).advance(minutes=10)
    assert names(cluster) == ["bound", "waiting"]


def test_failed_deletion_is_retried_and_counted(cluster: Cluster) -> None:
    cluster.add(pod("pod"))
    hold(cluster, "pod")
    cluster.client.delete(Pod, "pod", "default")
    cluster.faults.fail("patch", "pods", times=1)
    start(cluster)
    assert find(cluster, "pod").status.phase == "Pending"
    cluster.advance(21)
    assert find(cluster, "pod").status.phase == "Failed"
    told = cluster.context.telemetry.registry.render()
    labels = '{namespace="default",reason="unscheduled"}'
    assert f"pod_gc_collector_force_delete_pods_total{labels} 2\n" in told
    assert f"pod_gc_collector_force_delete_pod_errors_total{labels} 1\n" in told
