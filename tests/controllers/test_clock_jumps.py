# SPDX-License-Identifier: Apache-2.0
"""The time of day is ten minutes wrong for a while: nodes stay ready, pods stay where they are, leaders lead on."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_ready
from kubeloop.controllers import deployment as deployments
from kubeloop.controllers import node_lifecycle, pod_garbage_collector, replicaset, taint_eviction
from kubeloop.kubelet.node_status.served_nodes import STATE_ANNOTATION, STOPPED
from kubeloop.scheduler.scheduler import wire as scheduler
from kubeloop.testing import Cluster, deployment


@pytest.fixture
def working(cluster: Cluster) -> Cluster:
    cluster.add_nodes(3)
    for loop in (deployments, replicaset, node_lifecycle, taint_eviction, pod_garbage_collector):
        cluster.start(loop.wire)
    cluster.start(scheduler)
    cluster.add(deployment("web", replicas=6))
    cluster.advance(20)
    return cluster


def pods(cluster: Cluster) -> dict[str, Any]:
    return {pod.metadata.uid: pod for pod in cluster.client.list(Pod, "default").items}


def jumps(by: str, lasting: str) -> dict[str, Any]:
    fault = {"fault": "clock-jump", "by": by, "every": "3m", "for": lasting}
    return {"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan", "duration": "20m", "faults": [fault]}


@pytest.mark.parametrize("by", ["10m", "-10m"])
@pytest.mark.parametrize("lasting", ["2s", "70s"])
def test_clock_jump_evicts_no_pods(working: Cluster, by: str, lasting: str) -> None:
    before = set(pods(working))
    chaos = working.chaos(jumps(by, lasting))
    for _ in range(24):
        working.advance(minutes=1)
        assert {uid for uid, pod in pods(working).items() if is_ready(pod)} == before
    assert chaos.hits > 3
    assert [event.reason for event in working.events() if event.reason == "NodeNotReady"] == []
    assert [node.spec.taints for node in working.client.list(Node).items] == [()] * 3


def test_pods_of_a_failed_node_are_evicted_on_time_after_a_clock_jump(working: Cluster) -> None:
    lost = {uid for uid, pod in pods(working).items() if pod.spec.node_name == "n3"}
    working.client.patch(Node, "n3", {"metadata": {"annotations": {STATE_ANNOTATION: STOPPED}}})
    working.advance(100)
    (taint,) = [one for one in working.client.get(Node, "n3").spec.taints if one.effect == "NoExecute"]
    assert taint.key == "node.kubernetes.io/unreachable"
    working.clock.set_wall_offset(600.0)
    working.client.patch(Node, "n3", {"metadata": {"labels": {"looked": "at"}}})
    working.advance(150)
    assert all(pods(working)[uid].metadata.deletion_timestamp is None for uid in lost)
    working.clock.set_wall_offset(0.0)
    working.advance(120)
    assert all(uid not in pods(working) or pods(working)[uid].metadata.deletion_timestamp for uid in lost)
