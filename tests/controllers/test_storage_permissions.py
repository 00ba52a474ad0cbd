# SPDX-License-Identifier: Apache-2.0
"""The storage loops need no other rights than upstream gives their accounts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import VolumeAttachment, VolumeAttributesClass
from kubeloop.api.pods.volumes import CONTROLLER_MANAGED_ATTACH_ANNOTATION as MANAGED
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.controllers import (
    attach_detach,
    ephemeral_volume,
    persistentvolume_binder,
    persistentvolume_expander,
    persistentvolume_protection,
    persistentvolumeclaim_protection,
    volumeattributesclass_protection,
)
from kubeloop.controllers.app.context import Wire
from kubeloop.testing import Cluster
from tests.controllers.storage import (
    CLASS,
    NS,
    claim,
    claim_of,
    phase_of_volume,
    storage_class,
    user_of,
    volume,
    volume_of,
)


def start_as(cluster: Cluster, account: str, wire: Wire) -> None:
    """Wired within the event loop, because one loop may bring informers that another did not."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED)
    client = Client(InProcessTransport(cluster.server, User(f"system:serviceaccount:kube-system:{account}", groups)))
    cluster.start(lambda context: wire(replace(context, client=client)))


def start_all(cluster: Cluster) -> None:
    start_as(cluster, "persistent-volume-binder", persistentvolume_binder.wire)
    start_as(cluster, "pvc-protection-controller", persistentvolumeclaim_protection.wire)
    start_as(cluster, "pv-protection-controller", persistentvolume_protection.wire)
    start_as(cluster, "expand-controller", persistentvolume_expander.wire)


def test_persistentvolume_controllers_role_is_sufficient(cluster: Cluster) -> None:
    start_all(cluster)
    cluster.add(storage_class(CLASS, "kubeloop.io/host-path", allowVolumeExpansion=True))
    cluster.add(claim("c"), user_of("p", "c", node="n"))
    cluster.advance(5)
    bound = claim_of(cluster, "c")
    assert bound.status.phase == "Bound"
    assert [(one.type, one.status) for one in bound.status.conditions] == [("Unused", "False")]
    cluster.client.patch(PersistentVolumeClaim, "c", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}, NS)
    cluster.advance(5)
    assert dict(claim_of(cluster, "c").status.capacity) == {"storage": "3Gi"}
    cluster.client.delete(PersistentVolumeClaim, "c", NS)
    cluster.client.delete(Pod, "p", NS, grace_seconds=0)
    cluster.advance(5)
    with pytest.raises(NotFound):
        claim_of(cluster, "c")
    assert phase_of_volume(cluster, bound.spec.volume_name) == ""


def test_recycler_role_is_sufficient(cluster: Cluster) -> None:
    start_all(cluster)
    cluster.add(volume("v", persistentVolumeReclaimPolicy="Recycle"), claim("c"))
    cluster.advance(5)
    cluster.client.delete(PersistentVolumeClaim, "c", NS)
    cluster.advance(5)
    status = {"status": {"phase": "Succeeded"}}
    cluster.client.patch(Pod, "recycler-for-v", status, "default", subresource="status")
    cluster.advance(5)
    assert (phase_of_volume(cluster, "v"), volume_of(cluster, "v").spec.claim_ref) == ("Available", None)


def test_attach_detach_role_is_sufficient(cluster: Cluster) -> None:
    start_all(cluster)
    start_as(cluster, "attachdetach-controller", attach_detach.wire)
    node = {"name": "n", "annotations": {MANAGED: "true"}}
    cluster.add({"apiVersion": "v1", "kind": "Node", "metadata": node})
    cluster.add(volume("v", hostPath=None, csi={"driver": "d", "volumeHandle": "h"}))
    cluster.add(claim("c"), user_of("p", "c", node="n"))
    cluster.advance(5)
    (one,) = cluster.client.list(VolumeAttachment).items
    cluster.client.patch(VolumeAttachment, one.metadata.name, {"status": {"attached": True}}, subresource="status")
    cluster.advance(5)
    assert [one.name for one in cluster.client.get(Node, "n").status.volumes_attached] == ["kubernetes.io/csi/d^h"]
    cluster.client.delete(Pod, "p", NS, grace_seconds=0)
    cluster.advance(5)
    assert cluster.client.list(VolumeAttachment).items == ()
    assert cluster.client.get(Node, "n").status.volumes_attached == ()


def test_ephemeral_volume_and_attributes_class_roles_are_sufficient(cluster: Cluster) -> None:
    start_as(cluster, "ephemeral-volume-controller", ephemeral_volume.wire)
    start_as(cluster, "volumeattributesclass-protection-controller", volumeattributesclass_protection.wire)
    gold = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"}}
    cluster.add({**gold, "driverName": "d", "parameters": {"a": "b"}})
    pod = user_of("p")
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    pod["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    cluster.add(pod)
    cluster.advance(5)
    assert claim_of(cluster, "p-v").metadata.name == "p-v"
    found = cluster.client.get(VolumeAttributesClass, "gold")
    assert found.metadata.finalizers == ("kubernetes.io/vac-protection",)
    cluster.client.delete(VolumeAttributesClass, "gold")
    cluster.advance(5)
    assert cluster.client.list(VolumeAttributesClass).items == ()
