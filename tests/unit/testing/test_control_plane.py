# SPDX-License-Identifier: Apache-2.0
"""Tests of clusters with nodes and with the whole control plane of `kubeloop up`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.core_v1 import Namespace, Node, PersistentVolumeClaim, Pod
from kubeloop.api.meta.conditions import is_true
from kubeloop.controllers import replicaset, select
from kubeloop.testing import Cluster, deployment, namespace, persistent_volume_claim, pod, replica_set
from tests.unit.testing.counting_controller import counting

MakeCluster = Callable[..., Cluster]


def ready_pods(cluster: Cluster) -> list[str]:
    found = cluster.client.list(Pod, "default").items
    return [one.spec.node_name for one in found if is_true(one.status.conditions, "Ready")]


# Nodes.


def test_nodes_are_added_before_a_loop(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.start(replicaset.wire)
    cluster.add(replica_set("web"), pod("single", node="n1"))
    cluster.settle()
    assert ready_pods(cluster) == ["n1"]
    assert len(cluster.client.list(Pod, "default").items) == 2


def test_nodes_are_added_after_a_loop(cluster: Cluster) -> None:
    cluster.start(counting)
    cluster.start(replicaset.wire)
    cluster.add(pod("single", node="n1"))
    cluster.add_nodes(2)
    cluster.settle()
    assert [one.metadata.name for one in cluster.client.list(Node).items] == ["n1", "n2"]
    assert ready_pods(cluster) == ["n1"]


def test_nodes_are_added_in_one_call(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    with pytest.raises(ValueError, match="add all of them in one call"):
        cluster.add_nodes(1)


def test_cluster_is_made_with_nodes(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=3)
    assert len(cluster.client.list(Node).items) == 3


# The control plane.


def test_deployment_becomes_ready(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(plane=True, nodes=2)
    cluster.add(deployment("web", replicas=3))
    cluster.settle()
    assert cluster.client.get(Deployment, "web", "default").status.ready_replicas == 3
    assert set(ready_pods(cluster)) == {"n1", "n2"}
    cluster.client.delete(Deployment, "web", "default")
    cluster.advance(minutes=1)
    assert cluster.client.list(Pod, "default").items == ()


def test_nodes_are_added_to_a_plane_later(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(plane=True)
    cluster.add(deployment("web"))
    cluster.advance(seconds=10)
    assert ready_pods(cluster) == []
    cluster.add_nodes()
    cluster.eventually(lambda: ready_pods(cluster) == ["n1"])


def test_plane_runs_every_controller_of_kubeloop_up(make_cluster: MakeCluster) -> None:
    running = {one.name for one in make_cluster(plane=True).loops if one.status().phase == "running"}
    assert {one.name for one in select(["*"])} | {"kube-scheduler", "service-lb-controller"} <= running


def test_namespaces_and_claims_are_served(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(plane=True, nodes=1)
    cluster.add(namespace("shop"))
    cluster.settle()
    cluster.add(persistent_volume_claim("data", "shop"), pod("web", "shop"))
    cluster.advance(seconds=30)
    assert cluster.client.get(PersistentVolumeClaim, "data", "shop").status.phase == "Bound"
    cluster.client.delete(Namespace, "shop")
    cluster.advance(minutes=2)
    assert "shop" not in {one.metadata.name for one in cluster.client.list(Namespace).items}


def test_faults_do_not_hit_the_plane(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(plane=True)
    fault = cluster.faults.fail("write", times=None, optional=True)
    cluster.add(deployment("web"))
    cluster.settle()
    assert len(cluster.client.list(Pod, "default").items) == 1
    assert fault.hits == 0


def test_fork_has_a_plane(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(plane=True, nodes=1)
    cluster.add(deployment("web"))
    cluster.settle()
    with cluster.fork() as fork:
        fork.client.patch(Deployment, "web", {"spec": {"replicas": 2}}, "default")
        fork.advance(seconds=5)
        assert fork.client.get(Deployment, "web", "default").status.ready_replicas == 2
    assert cluster.client.get(Deployment, "web", "default").status.ready_replicas == 1


def test_run_of_a_plane_repeats_exactly(make_cluster: MakeCluster) -> None:
    def uids() -> list[str]:
        cluster = make_cluster(plane=True, nodes=2, seed=3)
        cluster.add(deployment("web", replicas=3))
        cluster.advance(minutes=1)
        return [one.metadata.uid for one in cluster.client.list(Pod, "default").items]

    assert uids() == uids()
