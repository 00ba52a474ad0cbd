# SPDX-License-Identifier: Apache-2.0
"""Nodes go with their instances, and are tainted while these are stopped."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.cloud.cloud_node_lifecycle import wire
from kubeloop.cloud.provider import CloudError
from kubeloop.cloud.taints import SHUTDOWN
from kubeloop.testing import Cluster, node
from tests.cloud.memory_cloud import MemoryCloud, start

OTHER = Taint(key="example.com/other", effect="NoSchedule")
PERIOD = 5


def names(cluster: Cluster) -> list[str]:
    return [one.metadata.name for one in cluster.client.list(Node).items]


def taints(cluster: Cluster) -> tuple[Taint, ...]:
    """Return the taints without the one that admission adds to every new node."""
    found: Node = cluster.client.get(Node, "n1")
    return tuple(one for one in found.spec.taints if one.key != "node.kubernetes.io/not-ready")


def say_ready(cluster: Cluster, status: str) -> None:
    condition = {"type": "Ready", "status": status}
    cluster.client.patch(Node, "n1", {"status": {"conditions": [condition]}}, subresource="status")


def test_node_that_is_not_ready_and_has_no_instance_is_deleted(cluster: Cluster) -> None:
    cluster.add(node("n1", ready=False), node("n2", ready=False))
    cloud = MemoryCloud()
    cloud.instances.add("n2")
    start(cluster, wire, cloud)
    assert names(cluster) == ["n2"]
    (event,) = cluster.events(reason="DeletingNode")
    assert event.message == "Deleting node n1 because it does not exist in the cloud provider"
    assert event.source.component == "cloud-node-lifecycle-controller"


def test_ready_node_is_not_looked_up(cluster: Cluster) -> None:
    cluster.add(node("n1"))
    cloud = MemoryCloud()
    start(cluster, wire, cloud)
    cluster.advance(minutes=5)
    assert names(cluster) == ["n1"]
    assert cloud.instances.calls == []


def test_node_is_deleted_after_its_instance_is_terminated(cluster: Cluster) -> None:
    cluster.add(node("n1", ready=False))
    cloud = MemoryCloud()
    cloud.instances.add("n1")
    start(cluster, wire, cloud)
    cluster.advance(minutes=1)
    assert names(cluster) == ["n1"]
    cloud.instances.machines.clear()
    cluster.advance(PERIOD + 1)
    assert names(cluster) == []


def test_node_is_kept_if_the_cloud_fails(cluster: Cluster) -> None:
    cluster.add(node("n1", ready=False))
    cloud = MemoryCloud()
    cloud.instances.fail("exists", *[CloudError("busy")] * 3)
    start(cluster, wire, cloud)
    cluster.advance(PERIOD * 2)
    assert names(cluster) == ["n1"]
    cluster.advance(PERIOD * 2)
    assert names(cluster) == []


def test_shutdown_instance_taints_its_node_until_ready(cluster: Cluster) -> None:
    cluster.add(node("n1", ready=False, taints=(OTHER,)))
    cloud = MemoryCloud()
    machine = cloud.instances.add("n1")
    machine.is_shut_down = True
    start(cluster, wire, cloud)
    assert [one.key for one in taints(cluster)] == [OTHER.key, SHUTDOWN.key]
    machine.is_shut_down = False
    cluster.advance(PERIOD * 2)
    assert len(taints(cluster)) == 2
    say_ready(cluster, "True")
    cluster.advance(PERIOD * 2)
    assert taints(cluster) == (OTHER,)


def test_taint_is_written_once(cluster: Cluster) -> None:
    cluster.add(node("n1", ready=False))
    cloud = MemoryCloud()
    cloud.instances.add("n1").is_shut_down = True
    start(cluster, wire, cloud)
    before = cluster.client.get(Node, "n1").metadata.resource_version
    cluster.advance(minutes=5)
    assert cluster.client.get(Node, "n1").metadata.resource_version == before


def test_recreated_node_is_not_deleted_for_the_old_instance(cluster: Cluster) -> None:
    cluster.add(node("n1", ready=False))
    cloud = MemoryCloud()
    cloud.instances.add("n1")
    start(cluster, wire, cloud)
    cluster.faults.drop_watches("nodes")
    cluster.faults.delay(60.0, "watch", "nodes")
    cluster.client.delete(Node, "n1")
    cluster.add(node("n1"))
    cloud.instances.machines.clear()
    cluster.advance(PERIOD * 4)
    assert names(cluster) == ["n1"]


def test_failed_deletion_records_an_event_and_is_retried(cluster: Cluster) -> None:
    cluster.add(node("n1", ready=False))
    cluster.faults.fail("delete", "nodes")
    start(cluster, wire, MemoryCloud())
    cluster.advance(1)
    (event,) = cluster.events(reason="DeletingNodeFailed")
    assert event.message.startswith("Failed deleting node n1: ")
    cluster.advance(PERIOD)
    assert names(cluster) == []
