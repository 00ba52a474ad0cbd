# SPDX-License-Identifier: Apache-2.0
"""Volumes are attached where pods need them, to one node at a time if they must, and detached when that is safe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.storage_v1 import VolumeAttachment
from kubeloop.api.pods.volumes import CONTROLLER_MANAGED_ATTACH_ANNOTATION as MANAGED
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.attach_detach import wire
from kubeloop.controllers.attach_detach.names import OUT_OF_SERVICE
from kubeloop.testing import Cluster
from tests.controllers.storage import NS, claim, events_about, user_of, volume

UNIQUE = "kubernetes.io/csi/d.example.com^h-v"
RWX = ("ReadWriteMany",)


def add_node(cluster: Cluster, name: str, *, managed: bool = True) -> None:
    annotations = {MANAGED: "true"} if managed else {}
    cluster.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}})
    set_ready(cluster, name, "True")


def set_ready(cluster: Cluster, name: str, status: str) -> None:
    condition = {"type": "Ready", "status": status}
    cluster.client.patch(Node, name, {"status": {"conditions": [condition]}}, subresource="status")


def add_volume(cluster: Cluster, modes: tuple[str, ...] = ("ReadWriteOnce",)) -> None:
    """A volume `v` of a driver, bound to the claim `c`."""
    made = cluster.add(claim("c", modes=modes, volumeName="v"))
    csi = {"driver": "d.example.com", "volumeHandle": "h-v"}
    reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid}
    cluster.add(volume("v", modes=modes, hostPath=None, csi=csi, claimRef=reference))
    cluster.client.patch("persistentvolumeclaims", "c", {"status": {"phase": "Bound"}}, NS, subresource="status")


def attachments(cluster: Cluster) -> dict[str, VolumeAttachment]:
    """Return attachments by node, without those being deleted."""
    found = cluster.client.list(VolumeAttachment).items
    return {one.spec.node_name: one for one in found if one.metadata.deletion_timestamp is None}


def attach(cluster: Cluster, node: str) -> None:
    """Set the status of an attachment like a driver."""
    one = attachments(cluster)[node]
    cluster.client.patch(VolumeAttachment, one.metadata.name, {"status": {"attached": True}}, subresource="status")
    cluster.settle()


def fail(cluster: Cluster, node: str, message: str) -> None:
    error = {"message": message, "time": "2030-01-01T00:00:00Z"}
    name = attachments(cluster)[node].metadata.name
    cluster.client.patch(VolumeAttachment, name, {"status": {"attachError": error}}, subresource="status")
    cluster.settle()


def mount(cluster: Cluster, node: str, *names: str) -> None:
    """Set the volumes in use of a node."""
    cluster.client.patch(Node, node, {"status": {"volumesInUse": list(names)}}, subresource="status")
    cluster.settle()


def reported(cluster: Cluster, node: str) -> list[str]:
    return [one.name for one in cluster.client.get(Node, node).status.volumes_attached]


def end(cluster: Cluster, pod: str) -> None:
    cluster.client.delete(Pod, pod, NS, grace_seconds=0)
    cluster.settle()


@pytest.fixture
def env(cluster: Cluster) -> Cluster:
    add_node(cluster, "n1")
    add_node(cluster, "n2")
    cluster.start(wire)
    return cluster


def used_on(cluster: Cluster, node: str, modes: tuple[str, ...] = ("ReadWriteOnce",)) -> None:
    add_volume(cluster, modes)
    cluster.add(user_of("p", "c", node=node))
    cluster.settle()
    attach(cluster, node)


def test_volume_is_attached_to_the_pods_node_and_reported_in_its_status(env: Cluster) -> None:
    add_volume(env)
    env.add(user_of("p", "c"))
    env.settle()
    assert attachments(env) == {}
    env.client.bind("p", NS, "n1")
    env.settle()
    made = attachments(env)["n1"]
    assert made.spec.attacher == "d.example.com"
    assert made.spec.source.persistent_volume_name == "v"
    assert (made.metadata.name[:4], len(made.metadata.name)) == ("csi-", 68)
    assert reported(env, "n1") == []
    attach(env, "n1")
    assert reported(env, "n1") == [UNIQUE]
    assert events_about(env, "p") == ['Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "v" ']


@pytest.mark.parametrize("how", ["no driver source", "driver needs none", "node does it itself", "claim not bound"])
def test_non_attachable_volumes_are_ignored(env: Cluster, how: str) -> None:
    if how == "no driver source":
        made = env.add(claim("c", volumeName="v"))
        env.add(volume("v", claimRef={"namespace": NS, "name": "c", "uid": made.metadata.uid}))
    else:
        add_volume(env)
    if how == "driver needs none":
        driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.example.com"}}
        env.add({**driver, "spec": {"attachRequired": False}})
    if how == "claim not bound":
        env.client.patch("persistentvolumeclaims", "c", {"status": {"phase": "Pending"}}, NS, subresource="status")
    if how == "node does it itself":
        env.client.patch(Node, "n1", {"metadata": {"annotations": {MANAGED: None}}})
    env.add(user_of("p", "c", node="n1"))
    env.advance(10)
    assert attachments(env) == {}


def test_claim_bound_after_scheduling_is_attached(env: Cluster) -> None:
    env.add(user_of("p", "c", node="n1"))
    add_volume(env)
    env.settle()
    assert set(attachments(env)) == {"n1"}


def test_volume_is_detached_when_unused_and_unmounted(env: Cluster) -> None:
    used_on(env, "n1")
    mount(env, "n1", UNIQUE)
    end(env, "p")
    env.advance(60)
    assert set(attachments(env)) == {"n1"}
    assert reported(env, "n1") == [UNIQUE]
    mount(env, "n1")
    assert (attachments(env), reported(env, "n1")) == ({}, [])


def test_terminated_pod_releases_its_volume(env: Cluster) -> None:
    used_on(env, "n1")
    env.client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, NS, subresource="status")
    env.settle()
    assert attachments(env) == {}


def test_exclusive_volume_waits_for_detach_from_another_node(env: Cluster) -> None:
    used_on(env, "n1")
    mount(env, "n1", UNIQUE)
    end(env, "p")
    env.add(user_of("q", "c", node="n2"))
    env.settle()
    assert set(attachments(env)) == {"n1"}
    why = (
        'Waiting for detach for volume "v" Volume is already exclusively attached to one node, '
        "waiting on detach before it can be attached to another node"
    )
    assert events_about(env, "q") == [f"Warning FailedAttachVolume: {why}"]
    mount(env, "n1")
    env.settle()
    assert set(attachments(env)) == {"n2"}


def test_pods_that_block_the_attachment_are_named(env: Cluster) -> None:
    used_on(env, "n1")
    env.add(user_of("q", "c", node="n2"))
    env.advance(30)
    assert set(attachments(env)) == {"n1"}
    message = 'Waiting for detach for volume "v" Volume is already used by pod(s) p'
    assert events_about(env, "q") == [f"Warning FailedAttachVolume: {message}"]


def test_a_shared_volume_is_attached_to_several_nodes(env: Cluster) -> None:
    used_on(env, "n1", RWX)
    env.add(user_of("q", "c", node="n2"))
    env.settle()
    assert set(attachments(env)) == {"n1", "n2"}


def test_moved_pod_gets_no_second_attachment_before_the_cache_shows_the_first(env: Cluster) -> None:
    add_volume(env)
    env.faults.delay(30, "watch", "volumeattachments", times=None)
    env.faults.drop_watches("volumeattachments")
    env.settle()
    env.add(user_of("p", "c", node="n1"))
    env.settle()
    end(env, "p")
    env.add(user_of("q", "c", node="n2"))
    env.advance(5)
    assert set(attachments(env)) == {"n1"}
    env.faults.clear()
    env.advance(60)
    assert set(attachments(env)) == {"n2"}


def test_exclusive_volume_is_attached_once_while_the_cache_is_stale(env: Cluster) -> None:
    add_volume(env)
    env.faults.delay(30, "watch", "volumeattachments", times=None)
    env.faults.drop_watches("volumeattachments")
    env.settle()
    env.add(user_of("p", "c", node="n1"))
    env.add(user_of("q", "c", node="n2"))
    env.advance(5)
    assert len(attachments(env)) == 1


def test_a_lost_create_counts_as_an_attachment(env: Cluster) -> None:
    add_volume(env)
    env.faults.delay(30, "watch", "volumeattachments", times=None)
    env.faults.drop_watches("volumeattachments")
    env.settle()
    env.faults.lose_answers("create", "volumeattachments", times=1)
    env.add(user_of("p", "c", node="n1"))
    env.settle()
    env.add(user_of("q", "c", node="n2"))
    env.advance(5)
    assert set(attachments(env)) == {"n1"}


def test_deleted_attachment_in_a_stale_cache_is_not_reported_again(env: Cluster) -> None:
    """The pod returns to the node before the cache shows that the attachment is deleted."""
    used_on(env, "n1")
    env.faults.delay(30, "watch", "volumeattachments", times=None)
    env.faults.drop_watches("volumeattachments")
    env.settle()
    end(env, "p")
    env.advance(5)
    assert attachments(env) == {}
    env.add(user_of("q", "c", node="n1"))
    env.advance(5)
    assert reported(env, "n1") == []
    env.faults.clear()
    env.advance(60)
    assert set(attachments(env)) == {"n1"}


def test_volume_stays_attached_while_a_status_report_is_in_flight(env: Cluster) -> None:
    """A node status that arrives late must not name a volume that is no longer attached."""
    add_volume(env)
    env.add(user_of("p", "c", node="n1"))
    env.settle()
    env.faults.delay(10, "patch", "nodes")
    attach(env, "n1")
    end(env, "p")
    env.advance(5)
    assert set(attachments(env)) == {"n1"}
    env.advance(60)
    assert (attachments(env), reported(env, "n1")) == ({}, [])


@pytest.mark.parametrize(("ready", "detached"), [("False", True), ("Unknown", True), ("True", False)])
def test_force_detach_after_six_minutes_applies_to_unhealthy_nodes_only(
    env: Cluster, ready: str, detached: bool
) -> None:
    used_on(env, "n1")
    mount(env, "n1", UNIQUE)
    set_ready(env, "n1", ready)
    end(env, "p")
    env.advance(355)
    assert set(attachments(env)) == {"n1"}
    env.advance(10)
    assert (attachments(env) == {}) is detached


def test_force_detach_timer_is_reset_while_a_pod_uses_the_volume(env: Cluster) -> None:
    used_on(env, "n1")
    mount(env, "n1", UNIQUE)
    set_ready(env, "n1", "Unknown")
    end(env, "p")
    env.advance(300)
    env.add(user_of("q", "c", node="n1"))
    env.advance(10)
    end(env, "q")
    env.advance(300)
    assert set(attachments(env)) == {"n1"}
    env.advance(70)
    assert attachments(env) == {}


def test_force_detach_can_be_disabled(cluster: Cluster) -> None:
    add_node(cluster, "n1")
    config = ManagerConfig(disable_force_detach_on_timeout=True)
    cluster.start(lambda context: wire(replace(context, config=config)))
    used_on(cluster, "n1")
    mount(cluster, "n1", UNIQUE)
    set_ready(cluster, "n1", "Unknown")
    end(cluster, "p")
    cluster.advance(hours=2)
    assert set(attachments(cluster)) == {"n1"}


def test_out_of_service_node_is_detached_immediately(env: Cluster) -> None:
    used_on(env, "n1")
    mount(env, "n1", UNIQUE)
    end(env, "p")
    taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    env.client.patch(Node, "n1", {"spec": {"taints": [taint]}})
    env.settle()
    assert attachments(env) == {}


def test_deleted_node_is_force_detached_after_six_minutes(env: Cluster) -> None:
    used_on(env, "n1")
    mount(env, "n1", UNIQUE)
    end(env, "p")
    env.client.delete(Node, "n1")
    env.advance(350)
    assert set(attachments(env)) == {"n1"}
    env.advance(20)
    assert attachments(env) == {}


def test_attach_error_is_reported_once(env: Cluster) -> None:
    add_volume(env)
    env.add(user_of("p", "c", node="n1"))
    env.settle()
    fail(env, "n1", "no such disk")
    env.advance(300)
    message = 'AttachVolume.Attach failed for volume "v" : no such disk'
    assert events_about(env, "p") == [f"Warning FailedAttachVolume: {message}"]
    attach(env, "n1")
    assert reported(env, "n1") == [UNIQUE]


def test_unresponsive_driver_is_reported_after_two_minutes(env: Cluster) -> None:
    add_volume(env)
    env.add(user_of("p", "c", node="n1"))
    env.advance(119)
    assert events_about(env, "p") == []
    env.advance(2)
    late = "timed out waiting for external-attacher of d.example.com CSI driver to attach volume h-v"
    message = f'AttachVolume.Attach failed for volume "v" : {late}'
    assert events_about(env, "p") == [f"Warning FailedAttachVolume: {message}"]


def test_deleted_attachment_is_recreated(env: Cluster) -> None:
    used_on(env, "n1")
    env.client.delete(VolumeAttachment, attachments(env)["n1"].metadata.name)
    env.settle()
    assert set(attachments(env)) == {"n1"}
    assert reported(env, "n1") == []


def test_restarted_controller_repeats_no_events_or_writes(env: Cluster) -> None:
    used_on(env, "n1")
    before: Any = attachments(env)["n1"].metadata.uid
    env.faults.expire_watches()
    env.advance(200)
    assert attachments(env)["n1"].metadata.uid == before
    assert len(events_about(env, "p")) == 1


def test_volumes_of_other_types_in_the_status_are_kept(env: Cluster) -> None:
    other = {"name": "kubernetes.io/iscsi/x", "devicePath": "/dev/x"}
    env.client.patch(Node, "n1", {"status": {"volumesAttached": [other]}}, subresource="status")
    used_on(env, "n1")
    assert reported(env, "n1") == [UNIQUE, "kubernetes.io/iscsi/x"]
