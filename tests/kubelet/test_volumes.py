# SPDX-License-Identifier: Apache-2.0
"""Pods with volumes of drivers begin when those are attached, and nodes say which ones they use."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import VolumeAttachment
from kubeloop.controllers import attach_detach
from kubeloop.kubelet.node_status.served_nodes import ATTACH_ANNOTATION, NEVER, STATE_ANNOTATION, STOPPED
from kubeloop.testing import Cluster
from tests.controllers.storage import NS, claim, events_about, user_of, volume

UNIQUE = "kubernetes.io/csi/d.example.com^h-v"


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.add_nodes(2)
    cluster.start(attach_detach.wire)
    return cluster


def add_volume(cluster: Cluster) -> None:
    """A volume `v` of a driver, bound to the claim `c`."""
    made = cluster.add(claim("c", volumeName="v"))
    csi = {"driver": "d.example.com", "volumeHandle": "h-v"}
    reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid}
    cluster.add(volume("v", hostPath=None, csi=csi, claimRef=reference))
    bind(cluster)


def bind(cluster: Cluster) -> None:
    cluster.client.patch(PersistentVolumeClaim, "c", {"status": {"phase": "Bound"}}, NS, subresource="status")


def annotate(cluster: Cluster, node: str, **said: str | None) -> None:
    cluster.client.patch(Node, node, {"metadata": {"annotations": said}})


def phase(cluster: Cluster, name: str = "p") -> str:
    return str(cluster.client.get(Pod, name, NS).status.phase)


def lists(cluster: Cluster, node: str) -> tuple[list[str], list[str]]:
    status = cluster.client.get(Node, node).status
    return [one.name for one in status.volumes_attached], list(status.volumes_in_use)


def attachments(cluster: Cluster) -> dict[str, Any]:
    return {one.spec.node_name: one.status.attached for one in cluster.client.list(VolumeAttachment).items}


def test_pod_with_a_csi_volume_runs(plane: Cluster) -> None:
    add_volume(plane)
    plane.add(user_of("p", "c", node="n1"))
    plane.settle()
    assert phase(plane) == "Running"
    assert attachments(plane) == {"n1": True}
    assert lists(plane, "n1") == ([UNIQUE], [UNIQUE])


def test_volume_of_a_terminated_pod_is_released_for_another_node(plane: Cluster) -> None:
    add_volume(plane)
    plane.add(user_of("p", "c", node="n1"))
    plane.settle()
    plane.add(user_of("q", "c", node="n2"))
    plane.settle()
    assert phase(plane, "q") == "Pending"  # one node at a time
    plane.client.delete(Pod, "p", NS)
    plane.advance(40)
    assert phase(plane, "q") == "Running"
    assert attachments(plane) == {"n2": True}
    assert (lists(plane, "n1"), lists(plane, "n2")) == (([], []), ([UNIQUE], [UNIQUE]))


def test_pod_waits_for_attachment_without_events(plane: Cluster) -> None:
    annotate(plane, "n1", **{ATTACH_ANNOTATION: NEVER})
    add_volume(plane)
    plane.add(user_of("p", "c", node="n1"))
    plane.advance(130)
    (status,) = plane.client.get(Pod, "p", NS).status.container_statuses
    assert status.state.waiting.reason == "ContainerCreating"
    assert lists(plane, "n1") == ([], [UNIQUE])
    assert [one for one in events_about(plane, "p") if "FailedMount" in one] == []
    annotate(plane, "n1", **{ATTACH_ANNOTATION: None})
    plane.settle()
    assert phase(plane) == "Running"


def test_waiting_pod_can_be_deleted(plane: Cluster) -> None:
    annotate(plane, "n1", **{ATTACH_ANNOTATION: NEVER})
    add_volume(plane)
    plane.add(user_of("p", "c", node="n1"))
    plane.settle()
    plane.client.delete(Pod, "p", NS)
    plane.advance(60)
    assert plane.client.list(Pod, NS).items == ()
    assert (attachments(plane), lists(plane, "n1")) == ({}, ([], []))


def test_self_attaching_node_is_not_waited_for(plane: Cluster) -> None:
    annotate(plane, "n1", **{"volumes.kubernetes.io/controller-managed-attach-detach": None})
    add_volume(plane)
    plane.add(user_of("p", "c", node="n1"))
    plane.settle()
    assert (phase(plane), attachments(plane)) == ("Running", {})


def test_driver_without_attach_is_not_waited_for(plane: Cluster) -> None:
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.example.com"}}
    plane.add({**driver, "spec": {"attachRequired": False}})
    add_volume(plane)
    plane.add(user_of("p", "c", node="n1"))
    plane.settle()
    assert (phase(plane), attachments(plane), lists(plane, "n1")) == ("Running", {}, ([], []))


def test_stopped_node_keeps_its_volumes_for_six_minutes(plane: Cluster) -> None:
    add_volume(plane)
    plane.add(user_of("p", "c", node="n1"))
    plane.settle()
    annotate(plane, "n1", **{STATE_ANNOTATION: STOPPED})
    plane.client.patch(
        Node, "n1", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, subresource="status"
    )
    plane.client.delete(Pod, "p", NS, grace_seconds=0)
    plane.advance(300)
    assert set(attachments(plane)) == {"n1"}
    plane.advance(120)
    assert attachments(plane) == {}


# Without the attach/detach controller: the test sets the attached volumes


def report(cluster: Cluster, node: str, *names: str) -> None:
    """Write the list of attached volumes into the status of a node, as the attach/detach controller does."""
    attached = [{"name": one, "devicePath": ""} for one in names]
    cluster.client.patch(Node, node, {"status": {"volumesAttached": attached}}, subresource="status")


@pytest.fixture
def used(cluster: Cluster) -> Cluster:
    """A node with a pod `p` that uses the volume."""
    cluster.add_nodes(1)
    add_volume(cluster)
    cluster.add(user_of("p", "c", node="n1"))
    report(cluster, "n1", UNIQUE)
    cluster.settle()
    assert (phase(cluster), lists(cluster, "n1")) == ("Running", ([UNIQUE], [UNIQUE]))
    return cluster


def test_stale_node_status_does_not_start_a_pod(used: Cluster) -> None:
    """The volume was detached, and the agent's cache of nodes does not show it yet."""
    used.faults.delay(300, "watch", "nodes", times=None)
    used.faults.drop_watches("nodes")
    used.client.delete(Pod, "p", NS, grace_seconds=1)
    used.advance(5)
    assert lists(used, "n1") == ([UNIQUE], [])
    report(used, "n1")
    used.add(user_of("q", "c", node="n1"))
    used.advance(20)
    assert (phase(used, "q"), lists(used, "n1")) == ("Pending", ([], [UNIQUE]))
    used.faults.clear()
    report(used, "n1", UNIQUE)
    used.advance(300)
    assert phase(used, "q") == "Running"


def test_pod_does_not_start_while_volumes_in_use_is_written(used: Cluster) -> None:
    used.faults.delay(5, "patch", "nodes", times=1)
    used.client.delete(Pod, "p", NS, grace_seconds=1)
    used.advance(3)
    used.add(user_of("q", "c", node="n1"))
    used.advance(1)
    assert phase(used, "q") == "Pending"
    used.advance(10)
    assert (phase(used, "q"), lists(used, "n1")) == ("Running", ([UNIQUE], [UNIQUE]))


def test_volumes_in_use_is_rewritten_after_a_lost_response(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    add_volume(cluster)
    cluster.faults.lose_answers("patch", "nodes", times=2)
    cluster.add(user_of("p", "c", node="n1"))
    report(cluster, "n1", UNIQUE)
    cluster.advance(30)
    assert phase(cluster) == "Running"


def test_attachment_waits_for_its_persistent_volume(plane: Cluster) -> None:
    source = {"persistentVolumeName": "v"}
    spec = {"attacher": "d.example.com", "nodeName": "n1", "source": source}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment"}
    plane.client.create({**kind, "metadata": {"name": "a"}, "spec": spec})
    plane.settle()
    assert attachments(plane) == {"n1": False}
    plane.add(volume("v"))
    plane.settle()
    assert attachments(plane) == {"n1": True}
