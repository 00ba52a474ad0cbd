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
def env(cluster: Cluster) -> Cluster:
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


def test_an_in_tree_persistent_volume_is_attached_by_its_driver(env: Cluster) -> None:
    add_volume(env, "v", EBS)
    env.add(user_of("p", "v", node="n1"))
    env.settle()
    made = attachments(env)["n1"]
    assert made.spec.attacher == "ebs.csi.aws.com"
    assert to_plain(made.spec.source) == {"persistentVolumeName": "v"}
    attach(env, "n1")
    assert reported(env, "n1") == [UNIQUE]
    end(env, "p")
    env.settle()
    assert (attachments(env), reported(env, "n1")) == ({}, [])


def test_an_inline_in_tree_volume_is_attached_with_its_translation(env: Cluster) -> None:
    env.add(inline_user("p", "n1", EBS))
    env.settle()
    made = attachments(env)["n1"]
    assert made.spec.attacher == "ebs.csi.aws.com"
    source = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4"}
    spec = {"csi": {**source, "volumeAttributes": {"partition": "0"}}, "accessModes": ["ReadWriteOnce"]}
    assert to_plain(made.spec.source) == {"inlineVolumeSpec": spec}
    attach(env, "n1")
    assert reported(env, "n1") == [UNIQUE]
    name = "ebs.csi.aws.com-vol-1"
    assert events_about(env, "p") == [
        f'Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "{name}" '
    ]
    mount(env, "n1", UNIQUE)
    end(env, "p")
    env.settle()
    assert set(attachments(env)) == {"n1"}
    mount(env, "n1")
    assert (attachments(env), reported(env, "n1")) == ({}, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [("claims", "claims"), ("claims", "inline"), ("inline", "claims"), ("inline", "inline")],
)
def test_one_disk_is_attached_to_one_node_however_pods_name_it(env: Cluster, first: str, second: str) -> None:
    """Two PersistentVolumes, or a PersistentVolume and an inline volume, with the same driver and handle."""
    for name, kind, node in (("a", first, "n1"), ("b", second, "n2")):
        if kind == "claims":
            add_volume(env, name, EBS)
            env.add(user_of(name, name, node=node))
        else:
            env.add(inline_user(name, node, EBS))
        env.advance(5)
        if node == "n1":
            attach(env, "n1")
    assert set(attachments(env)) == {"n1"}
    shown = "b" if second == "claims" else "ebs.csi.aws.com-vol-1"
    used = f'Waiting for detach for volume "{shown}" Volume is already used by pod(s) a'
    assert events_about(env, "b") == [f"Warning FailedAttachVolume: {used}"]
    end(env, "a")
    env.advance(5)
    assert set(attachments(env)) == {"n2"}


def test_two_volumes_with_one_handle_of_a_driver_are_one_disk(env: Cluster) -> None:
    csi = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
    for name, node in (("a", "n1"), ("b", "n2")):
        add_volume(env, name, csi)
        env.add(user_of(name, name, node=node))
    env.advance(5)
    assert len(attachments(env)) == 1


def test_two_volumes_with_one_handle_share_the_attachment_on_a_node(env: Cluster) -> None:
    csi = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
    for name in ("a", "b"):
        add_volume(env, name, csi)
        env.add(user_of(name, name, node="n1"))
    env.settle()
    attach(env, "n1")
    end(env, "a")
    env.advance(5)
    assert set(attachments(env)) == {"n1"}
    end(env, "b")
    env.advance(5)
    assert attachments(env) == {}


def test_a_gce_disk_is_exclusive_although_its_volume_says_shared(env: Cluster) -> None:
    add_volume(env, "v", {"gcePersistentDisk": {"pdName": "d"}}, ("ReadWriteMany",))
    env.add(user_of("p", "v", node="n1"))
    env.settle()
    env.add(user_of("q", "v", node="n2"))
    env.advance(5)
    assert set(attachments(env)) == {"n1"}


def test_a_driver_that_needs_no_attachment_gets_none_for_inline_volumes(env: Cluster) -> None:
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "file.csi.azure.com"}}
    env.add({**driver, "spec": {"attachRequired": False}})
    share = {"azureFile": {"secretName": "s", "shareName": "x"}}
    env.add(inline_user("p", "n1", share))
    env.advance(5)
    assert attachments(env) == {}
    env.client.delete("csidrivers", "file.csi.azure.com")
    env.advance(5)
    assert set(attachments(env)) == {"n1"}


def test_an_attached_volume_that_is_gone_is_detached(env: Cluster) -> None:
    add_volume(env, "v", EBS)
    env.add(user_of("p", "v", node="n1"))
    env.settle()
    attach(env, "n1")
    env.client.patch("persistentvolumes", "v", {"metadata": {"finalizers": None}})
    env.client.delete("persistentvolumes", "v")
    end(env, "p")
    env.advance(5)
    assert attachments(env) == {}
