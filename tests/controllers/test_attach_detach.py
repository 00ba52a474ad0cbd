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
from tests.controllers.storage import NS, claim, told, user_of, volume

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
    """By node, those that are not being deleted."""
    found = cluster.client.list(VolumeAttachment).items
    return {one.spec.node_name: one for one in found if one.metadata.deletion_timestamp is None}


def attach(cluster: Cluster, node: str) -> None:
    """What a driver does."""
    one = attachments(cluster)[node]
    cluster.client.patch(VolumeAttachment, one.metadata.name, {"status": {"attached": True}}, subresource="status")
    cluster.settle()


def fail(cluster: Cluster, node: str, message: str) -> None:
    error = {"message": message, "time": "2030-01-01T00:00:00Z"}
    name = attachments(cluster)[node].metadata.name
    cluster.client.patch(VolumeAttachment, name, {"status": {"attachError": error}}, subresource="status")
    cluster.settle()


def mount(cluster: Cluster, node: str, *names: str) -> None:
    """What a node says it uses."""
    cluster.client.patch(Node, node, {"status": {"volumesInUse": list(names)}}, subresource="status")
    cluster.settle()


def reported(cluster: Cluster, node: str) -> list[str]:
    return [one.name for one in cluster.client.get(Node, node).status.volumes_attached]


def end(cluster: Cluster, pod: str) -> None:
    cluster.client.delete(Pod, pod, NS, grace_seconds=0)
    cluster.settle()


@pytest.fixture
def world(cluster: Cluster) -> Cluster:
    add_node(cluster, "n1")
    add_node(cluster, "n2")
    cluster.start(wire)
    return cluster


def used_on(cluster: Cluster, node: str, modes: tuple[str, ...] = ("ReadWriteOnce",)) -> None:
    add_volume(cluster, modes)
    cluster.add(user_of("p", "c", node=node))
    cluster.settle()
    attach(cluster, node)


def test_a_volume_is_attached_where_its_pod_runs_and_the_node_is_told_when_it_is(world: Cluster) -> None:
    add_volume(world)
    world.add(user_of("p", "c"))
    world.settle()
    assert attachments(world) == {}
    world.client.bind("p", NS, "n1")
    world.settle()
    made = attachments(world)["n1"]
    assert made.spec.attacher == "d.example.com"
    assert made.spec.source.persistent_volume_name == "v"
    assert (made.metadata.name[:4], len(made.metadata.name)) == ("csi-", 68)
    assert reported(world, "n1") == []
    attach(world, "n1")
    assert reported(world, "n1") == [UNIQUE]
    assert told(world, "p") == ['Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "v" ']


@pytest.mark.parametrize("how", ["no driver source", "driver needs none", "node does it itself", "claim not bound"])
def test_what_needs_no_attaching_is_not_attached(world: Cluster, how: str) -> None:
    if how == "no driver source":
        made = world.add(claim("c", volumeName="v"))
        world.add(volume("v", claimRef={"namespace": NS, "name": "c", "uid": made.metadata.uid}))
    else:
        add_volume(world)
    if how == "driver needs none":
        driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.example.com"}}
        world.add({**driver, "spec": {"attachRequired": False}})
    if how == "claim not bound":
        world.client.patch("persistentvolumeclaims", "c", {"status": {"phase": "Pending"}}, NS, subresource="status")
    if how == "node does it itself":
        world.client.patch(Node, "n1", {"metadata": {"annotations": {MANAGED: None}}})
    world.add(user_of("p", "c", node="n1"))
    world.advance(10)
    assert attachments(world) == {}


def test_a_claim_that_is_bound_after_its_pod_was_placed_is_attached(world: Cluster) -> None:
    world.add(user_of("p", "c", node="n1"))
    add_volume(world)
    world.settle()
    assert set(attachments(world)) == {"n1"}


def test_a_volume_is_detached_when_no_pod_needs_it_and_the_node_has_unmounted_it(world: Cluster) -> None:
    used_on(world, "n1")
    mount(world, "n1", UNIQUE)
    end(world, "p")
    world.advance(60)
    assert set(attachments(world)) == {"n1"}
    assert reported(world, "n1") == [UNIQUE]
    mount(world, "n1")
    assert (attachments(world), reported(world, "n1")) == ({}, [])


def test_a_pod_that_has_ended_needs_its_volume_no_longer(world: Cluster) -> None:
    used_on(world, "n1")
    world.client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, NS, subresource="status")
    world.settle()
    assert attachments(world) == {}


def test_a_volume_for_one_node_waits_until_the_other_has_let_it_go(world: Cluster) -> None:
    used_on(world, "n1")
    mount(world, "n1", UNIQUE)
    end(world, "p")
    world.add(user_of("q", "c", node="n2"))
    world.settle()
    assert set(attachments(world)) == {"n1"}
    why = (
        'Waiting for detach for volume "v" Volume is already exclusively attached to one node, '
        "waiting on detach before it can be attached to another node"
    )
    assert told(world, "q") == [f"Warning FailedAttachVolume: {why}"]
    mount(world, "n1")
    world.settle()
    assert set(attachments(world)) == {"n2"}


def test_pods_that_are_in_the_way_are_named(world: Cluster) -> None:
    used_on(world, "n1")
    world.add(user_of("q", "c", node="n2"))
    world.advance(30)
    assert set(attachments(world)) == {"n1"}
    message = 'Waiting for detach for volume "v" Volume is already used by pod(s) p'
    assert told(world, "q") == [f"Warning FailedAttachVolume: {message}"]


def test_a_shared_volume_is_attached_to_several_nodes(world: Cluster) -> None:
    used_on(world, "n1", RWX)
    world.add(user_of("q", "c", node="n2"))
    world.settle()
    assert set(attachments(world)) == {"n1", "n2"}


def test_a_pod_that_moves_before_the_cache_shows_the_attachment_does_not_get_a_second_one(world: Cluster) -> None:
    add_volume(world)
    world.faults.delay(30, "watch", "volumeattachments", times=None)
    world.faults.drop_watches("volumeattachments")
    world.settle()
    world.add(user_of("p", "c", node="n1"))
    world.settle()
    end(world, "p")
    world.add(user_of("q", "c", node="n2"))
    world.advance(5)
    assert set(attachments(world)) == {"n1"}
    world.faults.clear()
    world.advance(60)
    assert set(attachments(world)) == {"n2"}


def test_two_nodes_that_need_an_exclusive_volume_do_not_both_get_it_while_the_cache_is_stale(world: Cluster) -> None:
    add_volume(world)
    world.faults.delay(30, "watch", "volumeattachments", times=None)
    world.faults.drop_watches("volumeattachments")
    world.settle()
    world.add(user_of("p", "c", node="n1"))
    world.add(user_of("q", "c", node="n2"))
    world.advance(5)
    assert len(attachments(world)) == 1


def test_a_lost_create_counts_as_an_attachment(world: Cluster) -> None:
    add_volume(world)
    world.faults.delay(30, "watch", "volumeattachments", times=None)
    world.faults.drop_watches("volumeattachments")
    world.settle()
    world.faults.lose_answers("create", "volumeattachments", times=1)
    world.add(user_of("p", "c", node="n1"))
    world.settle()
    world.add(user_of("q", "c", node="n2"))
    world.advance(5)
    assert set(attachments(world)) == {"n1"}


def test_a_deleted_attachment_that_the_cache_still_shows_is_not_reported_again(world: Cluster) -> None:
    """The pod comes back to the node before the cache shows that the attachment is gone."""
    used_on(world, "n1")
    world.faults.delay(30, "watch", "volumeattachments", times=None)
    world.faults.drop_watches("volumeattachments")
    world.settle()
    end(world, "p")
    world.advance(5)
    assert attachments(world) == {}
    world.add(user_of("q", "c", node="n1"))
    world.advance(5)
    assert reported(world, "n1") == []
    world.faults.clear()
    world.advance(60)
    assert set(attachments(world)) == {"n1"}


def test_a_volume_stays_attached_while_a_report_that_names_it_is_on_its_way(world: Cluster) -> None:
    """A node status that arrives late must not name a volume that is no longer attached."""
    add_volume(world)
    world.add(user_of("p", "c", node="n1"))
    world.settle()
    world.faults.delay(10, "patch", "nodes")
    attach(world, "n1")
    end(world, "p")
    world.advance(5)
    assert set(attachments(world)) == {"n1"}
    world.advance(60)
    assert (attachments(world), reported(world, "n1")) == ({}, [])


@pytest.mark.parametrize(("ready", "detached"), [("False", True), ("Unknown", True), ("True", False)])
def test_after_six_minutes_only_a_node_that_is_not_well_loses_what_it_has_mounted(
    world: Cluster, ready: str, detached: bool
) -> None:
    used_on(world, "n1")
    mount(world, "n1", UNIQUE)
    set_ready(world, "n1", ready)
    end(world, "p")
    world.advance(355)
    assert set(attachments(world)) == {"n1"}
    world.advance(10)
    assert (attachments(world) == {}) is detached


def test_time_does_not_run_while_a_pod_needs_the_volume(world: Cluster) -> None:
    used_on(world, "n1")
    mount(world, "n1", UNIQUE)
    set_ready(world, "n1", "Unknown")
    end(world, "p")
    world.advance(300)
    world.add(user_of("q", "c", node="n1"))
    world.advance(10)
    end(world, "q")
    world.advance(300)
    assert set(attachments(world)) == {"n1"}
    world.advance(70)
    assert attachments(world) == {}


def test_forcing_can_be_turned_off(cluster: Cluster) -> None:
    add_node(cluster, "n1")
    config = ManagerConfig(disable_force_detach_on_timeout=True)
    cluster.start(lambda context: wire(replace(context, config=config)))
    used_on(cluster, "n1")
    mount(cluster, "n1", UNIQUE)
    set_ready(cluster, "n1", "Unknown")
    end(cluster, "p")
    cluster.advance(hours=2)
    assert set(attachments(cluster)) == {"n1"}


def test_a_node_out_of_service_loses_its_volumes_at_once(world: Cluster) -> None:
    used_on(world, "n1")
    mount(world, "n1", UNIQUE)
    end(world, "p")
    taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    world.client.patch(Node, "n1", {"spec": {"taints": [taint]}})
    world.settle()
    assert attachments(world) == {}


def test_of_a_node_that_is_gone_volumes_are_taken_after_six_minutes(world: Cluster) -> None:
    used_on(world, "n1")
    mount(world, "n1", UNIQUE)
    end(world, "p")
    world.client.delete(Node, "n1")
    world.advance(350)
    assert set(attachments(world)) == {"n1"}
    world.advance(20)
    assert attachments(world) == {}


def test_why_a_driver_cannot_attach_is_told_once(world: Cluster) -> None:
    add_volume(world)
    world.add(user_of("p", "c", node="n1"))
    world.settle()
    fail(world, "n1", "no such disk")
    world.advance(300)
    message = 'AttachVolume.Attach failed for volume "v" : no such disk'
    assert told(world, "p") == [f"Warning FailedAttachVolume: {message}"]
    attach(world, "n1")
    assert reported(world, "n1") == [UNIQUE]


def test_a_driver_that_does_not_answer_is_told_of_after_two_minutes(world: Cluster) -> None:
    add_volume(world)
    world.add(user_of("p", "c", node="n1"))
    world.advance(119)
    assert told(world, "p") == []
    world.advance(2)
    late = "timed out waiting for external-attacher of d.example.com CSI driver to attach volume h-v"
    message = f'AttachVolume.Attach failed for volume "v" : {late}'
    assert told(world, "p") == [f"Warning FailedAttachVolume: {message}"]


def test_an_attachment_that_somebody_deletes_is_made_again(world: Cluster) -> None:
    used_on(world, "n1")
    world.client.delete(VolumeAttachment, attachments(world)["n1"].metadata.name)
    world.settle()
    assert set(attachments(world)) == {"n1"}
    assert reported(world, "n1") == []


def test_a_new_process_neither_tells_nor_does_anything_twice(world: Cluster) -> None:
    used_on(world, "n1")
    before: Any = attachments(world)["n1"].metadata.uid
    world.faults.expire_watches()
    world.advance(200)
    assert attachments(world)["n1"].metadata.uid == before
    assert len(told(world, "p")) == 1


def test_volumes_of_other_kinds_in_a_status_are_left_alone(world: Cluster) -> None:
    other = {"name": "kubernetes.io/iscsi/x", "devicePath": "/dev/x"}
    world.client.patch(Node, "n1", {"status": {"volumesAttached": [other]}}, subresource="status")
    used_on(world, "n1")
    assert reported(world, "n1") == [UNIQUE, "kubernetes.io/iscsi/x"]
