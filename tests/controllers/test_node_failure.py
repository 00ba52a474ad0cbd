# SPDX-License-Identifier: Apache-2.0
"""A node fails under a deployment: its pods leave, others take their place elsewhere, and it serves again when back."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_ready
from kubeloop.controllers import deployment as deployments
from kubeloop.controllers import node_lifecycle, pod_garbage_collector, replicaset, taint_eviction
from kubeloop.kubelet.node_status.served_nodes import STATE_ANNOTATION, STOPPED
from kubeloop.scheduler.scheduler import wire as scheduler
from kubeloop.testing import Cluster, deployment

LOOPS = (deployments, replicaset, node_lifecycle, taint_eviction, pod_garbage_collector)


def start(cluster: Cluster) -> None:
    cluster.add_nodes(3)
    for loop in LOOPS:
        cluster.start(loop.wire)
    cluster.start(scheduler)
    cluster.add(deployment("web", replicas=6))
    cluster.advance(20)
    assert available(cluster) == 6


def switch(cluster: Cluster, node: str, state: str | None) -> None:
    cluster.client.patch(Node, node, {"metadata": {"annotations": {STATE_ANNOTATION: state}}})


def available(cluster: Cluster) -> int:
    return int(cluster.client.get(Deployment, "web", "default").status.available_replicas or 0)


def pods_on(cluster: Cluster, node: str) -> list[Any]:
    return [one for one in cluster.client.list(Pod, "default").items if one.spec.node_name == node]


def test_pods_of_a_failed_node_are_replaced_and_the_node_recovers(cluster: Cluster) -> None:
    start(cluster)
    lost = {pod.metadata.name for pod in pods_on(cluster, "n3")}
    assert lost
    switch(cluster, "n3", STOPPED)
    cluster.advance(70)
    assert not any(map(is_ready, pods_on(cluster, "n3")))
    assert available(cluster) == 6 - len(lost)  # they have a toleration of five minutes
    cluster.advance(minutes=5)
    assert available(cluster) == 6
    assert all(pod.metadata.deletion_timestamp is not None for pod in pods_on(cluster, "n3"))
    switch(cluster, "n3", None)
    cluster.advance(60)
    assert pods_on(cluster, "n3") == []
    assert cluster.client.get(Node, "n3").spec.taints == ()
    cluster.client.patch(Deployment, "web", {"spec": {"replicas": 12}}, "default")
    cluster.advance(30)
    assert available(cluster) == 12
    assert pods_on(cluster, "n3")


def test_pods_of_a_recovered_node_are_kept_and_become_ready(cluster: Cluster) -> None:
    start(cluster)
    before = {pod.metadata.uid for pod in pods_on(cluster, "n3")}
    switch(cluster, "n3", STOPPED)
    cluster.advance(120)
    assert available(cluster) < 6
    switch(cluster, "n3", None)
    cluster.advance(minutes=10)
    assert {pod.metadata.uid for pod in pods_on(cluster, "n3")} == before
    assert available(cluster) == 6
    assert cluster.client.get(Node, "n3").spec.taints == ()


def test_no_pods_are_evicted_if_all_nodes_fail(cluster: Cluster) -> None:
    start(cluster)
    before = {pod.metadata.uid for pod in cluster.client.list(Pod, "default").items}
    for name in ("n1", "n2", "n3"):
        switch(cluster, name, STOPPED)
    cluster.advance(minutes=20)
    assert {pod.metadata.uid for pod in cluster.client.list(Pod, "default").items} == before
    for name in ("n1", "n2", "n3"):
        switch(cluster, name, None)
    cluster.advance(minutes=2)
    assert {pod.metadata.uid for pod in cluster.client.list(Pod, "default").items} == before
    assert available(cluster) == 6
