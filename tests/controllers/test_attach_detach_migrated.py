# SPDX-License-Identifier: Apache-2.0
"""In-tree volumes are attached by their CSI drivers, and one disk is one volume however it is named."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.codec import to_plain
from kubeloop.controllers.attach_detach import wire
from kubeloop.testing import Cluster
from tests.controllers.storage import NS, claim, events_about, user_of, volume
from tests.controllers.test_attach_detach import add_node, attach, attachments, end, mount, reported

EBS = {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1", "fsType": "ext4"}}
UNIQUE = "kubernetes.io/csi/ebs.csi.aws.com^vol-1"


@pytest.fixture
def world(cluster: Cluster) -> Cluster:
    add_node(cluster, "n1")
    add_node(cluster, "n2")
    cluster.start(wire)
    return cluster


def add_volume(
    cluster: Cluster, name: str, source: dict[str, Any], modes: tuple[str, ...] = ("ReadWriteOnce",)
) -> None:
    """A volume that is bound to a claim of the same name."""
    made = cluster.add(claim(name, modes=modes, volumeName=name))
    reference = {"namespace": NS, "name": name, "uid": made.metadata.uid}
    cluster.add(volume(name, modes=modes, hostPath=None, claimRef=reference, **source))
    cluster.client.patch("persistentvolumeclaims", name, {"status": {"phase": "Bound"}}, NS, subresource="status")


def inline_user(name: str, node: str, source: dict[str, Any]) -> dict[str, Any]:
    pod = user_of(name, node=node)
    pod["spec"]["volumes"] = [{"name": "disk", **source}]
    return pod


def test_an_in_tree_persistent_volume_is_attached_by_its_driver(world: Cluster) -> None:
    add_volume(world, "v", EBS)
    world.add(user_of("p", "v", node="n1"))
    world.settle()
    made = attachments(world)["n1"]
    assert made.spec.attacher == "ebs.csi.aws.com"
    assert to_plain(made.spec.source) == {"persistentVolumeName": "v"}
    attach(world, "n1")
    assert reported(world, "n1") == [UNIQUE]
    end(world, "p")
    world.settle()
    assert (attachments(world), reported(world, "n1")) == ({}, [])


def test_an_inline_in_tree_volume_is_attached_with_its_translation(world: Cluster) -> None:
    world.add(inline_user("p", "n1", EBS))
    world.settle()
    made = attachments(world)["n1"]
    assert made.spec.attacher == "ebs.csi.aws.com"
    source = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4"}
    spec = {"csi": {**source, "volumeAttributes": {"partition": "0"}}, "accessModes": ["ReadWriteOnce"]}
    assert to_plain(made.spec.source) == {"inlineVolumeSpec": spec}
    attach(world, "n1")
    assert reported(world, "n1") == [UNIQUE]
    name = "ebs.csi.aws.com-vol-1"
    assert events_about(world, "p") == [
        f'Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "{name}" '
    ]
    mount(world, "n1", UNIQUE)
    end(world, "p")
    world.settle()
    assert set(attachments(world)) == {"n1"}
    mount(world, "n1")
    assert (attachments(world), reported(world, "n1")) == ({}, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [("claims", "claims"), ("claims", "inline"), ("inline", "claims"), ("inline", "inline")],
)
def test_one_disk_is_attached_to_one_node_however_pods_name_it(world: Cluster, first: str, second: str) -> None:
    """Two PersistentVolumes, or a PersistentVolume and an inline volume, with the same driver and handle."""
    for name, kind, node in (("a", first, "n1"), ("b", second, "n2")):
        if kind == "claims":
            add_volume(world, name, EBS)
            world.add(user_of(name, name, node=node))
        else:
            world.add(inline_user(name, node, EBS))
        world.advance(5)
        if node == "n1":
            attach(world, "n1")
    assert set(attachments(world)) == {"n1"}
    shown = "b" if second == "claims" else "ebs.csi.aws.com-vol-1"
    used = f'Waiting for detach for volume "{shown}" Volume is already used by pod(s) a'
    assert events_about(world, "b") == [f"Warning FailedAttachVolume: {used}"]
    end(world, "a")
    world.advance(5)
    assert set(attachments(world)) == {"n2"}


def test_two_volumes_with_one_handle_of_a_driver_are_one_disk(world: Cluster) -> None:
    csi = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
    for name, node in (("a", "n1"), ("b", "n2")):
        add_volume(world, name, csi)
        world.add(user_of(name, name, node=node))
    world.advance(5)
    assert len(attachments(world)) == 1


def test_two_volumes_with_one_handle_share_the_attachment_on_a_node(world: Cluster) -> None:
    csi = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
    for name in ("a", "b"):
        add_volume(world, name, csi)
        world.add(user_of(name, name, node="n1"))
    world.settle()
    attach(world, "n1")
    end(world, "a")
    world.advance(5)
    assert set(attachments(world)) == {"n1"}
    end(world, "b")
    world.advance(5)
    assert attachments(world) == {}


def test_a_gce_disk_is_exclusive_although_its_volume_says_shared(world: Cluster) -> None:
    add_volume(world, "v", {"gcePersistentDisk": {"pdName": "d"}}, ("ReadWriteMany",))
    world.add(user_of("p", "v", node="n1"))
    world.settle()
    world.add(user_of("q", "v", node="n2"))
    world.advance(5)
    assert set(attachments(world)) == {"n1"}


def test_a_driver_that_needs_no_attachment_gets_none_for_inline_volumes(world: Cluster) -> None:
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "file.csi.azure.com"}}
    world.add({**driver, "spec": {"attachRequired": False}})
    share = {"azureFile": {"secretName": "s", "shareName": "x"}}
    world.add(inline_user("p", "n1", share))
    world.advance(5)
    assert attachments(world) == {}
    world.client.delete("csidrivers", "file.csi.azure.com")
    world.advance(5)
    assert set(attachments(world)) == {"n1"}


def test_an_attached_volume_that_is_gone_is_detached(world: Cluster) -> None:
    add_volume(world, "v", EBS)
    world.add(user_of("p", "v", node="n1"))
    world.settle()
    attach(world, "n1")
    world.client.patch("persistentvolumes", "v", {"metadata": {"finalizers": None}})
    world.client.delete("persistentvolumes", "v")
    end(world, "p")
    world.advance(5)
    assert attachments(world) == {}
