# SPDX-License-Identifier: Apache-2.0
"""Tests of provisioning: built-in and external, and events of failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubeloop.api.errors import forbidden
from kubeloop.api.generated.core_v1 import (
    HostPathVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.pods.volumes import BOUND_BY_CONTROLLER, PROVISIONED_BY, SELECTED_NODE
from kubeloop.api.scalars.wire import Quantity
from kubeloop.controllers import persistentvolume_protection
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.persistentvolume_binder import wire
from kubeloop.controllers.persistentvolume_binder.provisioner import (
    ProvisioningError,
    ProvisionRequest,
    VolumeDeletionError,
    VolumeInUse,
)
from kubeloop.testing import Cluster, node
from tests.controllers.storage import (
    CLASS,
    NS,
    claim,
    claim_of,
    delete_claim,
    events_about,
    phase_of_volume,
    storage_class,
    volume_of,
)

OURS = "kubeloop.io/host-path"
STEPS = "volume.kubernetes.io/storage-provisioner"
OLD = "volume.beta.kubernetes.io/storage-provisioner"


class ScriptedProvisioner:
    """Provisioner with scripted results."""

    name = "example.com/local"
    takes_mount_options = True

    def __init__(self) -> None:
        self.made: list[ProvisionRequest] = []
        self.deleted: list[str] = []
        self.refuses = ""
        self.cannot_delete: VolumeDeletionError | None = None

    async def provision(self, request: ProvisionRequest) -> PersistentVolume:
        if self.refuses:
            raise ProvisioningError(self.refuses)
        self.made.append(request)
        spec = PersistentVolumeSpec(
            access_modes=("ReadWriteOnce",),
            capacity={"storage": Quantity("10Gi")},
            persistent_volume_reclaim_policy=request.storage_class.reclaim_policy or "Delete",
            host_path=HostPathVolumeSource(path="/disks"),
        )
        return PersistentVolume(metadata=ObjectMeta(name=request.name), spec=spec)

    async def delete(self, volume: PersistentVolume) -> None:
        if self.cannot_delete is not None:
            raise self.cannot_delete
        self.deleted.append(volume.metadata.name)


def start(cluster: Cluster, *provisioners: Any, **config: Any) -> None:
    cluster.start(lambda context: wire(replace(context, config=ManagerConfig(**config)), *provisioners))
    cluster.start(persistentvolume_protection.wire)


def made_for(cluster: Cluster, name: str) -> str:
    return f"pvc-{claim_of(cluster, name).metadata.uid}"


def test_host_path_volumes_are_provisioned_and_bound(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, OURS, reclaimPolicy="Delete"))
    start(cluster)
    cluster.add(claim("c", "3Gi"))
    cluster.advance(1)
    bound = claim_of(cluster, "c")
    assert (bound.status.phase, bound.spec.volume_name) == ("Bound", made_for(cluster, "c"))
    assert bound.metadata.annotations[STEPS] == bound.metadata.annotations[OLD] == OURS
    made = volume_of(cluster, bound.spec.volume_name)
    assert made.spec.storage_class_name == CLASS
    assert dict(made.spec.capacity) == {"storage": "3Gi"}
    assert made.metadata.annotations[PROVISIONED_BY] == OURS
    assert made.metadata.annotations[BOUND_BY_CONTROLLER] == "yes"
    assert "kubernetes.io/pv-controller" in made.metadata.finalizers
    assert made.spec.host_path is not None
    assert made.spec.host_path.path == f"/var/lib/kubeloop/volumes/{made.metadata.name}"
    assert events_about(cluster, "c") == [
        f"Normal ProvisioningSucceeded: Successfully provisioned volume {made.metadata.name} using {OURS}"
    ]


@pytest.mark.parametrize(("policy", "after"), [("Delete", ""), ("Retain", "Released")])
def test_provisioned_volume_has_the_reclaim_policy_of_its_class(cluster: Cluster, policy: str, after: str) -> None:
    cluster.add(storage_class(CLASS, OURS, reclaimPolicy=policy))
    start(cluster)
    cluster.add(claim("c"))
    cluster.advance(1)
    name = made_for(cluster, "c")
    delete_claim(cluster, "c")
    cluster.advance(1)
    assert phase_of_volume(cluster, name) == after


def test_external_provisioner_is_requested_by_annotation(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, "example.com/disks"))
    start(cluster)
    made = cluster.add(claim("c"))
    cluster.settle()
    asked = claim_of(cluster, "c")
    assert asked.metadata.annotations[STEPS] == asked.metadata.annotations[OLD] == "example.com/disks"
    assert events_about(cluster, "c")[0].startswith(
        "Normal ExternalProvisioning: Waiting for a volume to be created either by"
    )
    theirs = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "theirs", "annotations": {PROVISIONED_BY: "example.com/disks"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "csi": {"driver": "example.com", "volumeHandle": "h"},
            "claimRef": {"namespace": NS, "name": "c", "uid": made.metadata.uid},
        },
    }
    cluster.add(theirs)
    cluster.advance(1)
    assert (claim_of(cluster, "c").status.phase, claim_of(cluster, "c").spec.volume_name) == ("Bound", "theirs")


def test_migrated_in_tree_class_is_requested_from_its_csi_driver(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, "kubernetes.io/gce-pd"))
    start(cluster)
    cluster.add(claim("c"))
    cluster.settle()
    annotations = claim_of(cluster, "c").metadata.annotations
    assert annotations[STEPS] == "pd.csi.storage.gke.io"


@pytest.mark.parametrize(
    ("provisioner", "why"),
    [
        ("kubernetes.io/no-provisioner", "no volume plugin matched name: kubernetes.io/no-provisioner"),
        ("kubernetes.io/nfs", "no provisionable volume plugin matched"),
        (
            "kubernetes.io/host-path",
            'Failed to create provisioner: provisioning in volume plugin "kubernetes.io/host-path" is disabled',
        ),
    ],
)
def test_missing_provisioner_records_an_event(cluster: Cluster, provisioner: str, why: str) -> None:
    cluster.add(storage_class(CLASS, provisioner))
    start(cluster)
    cluster.add(claim("c"))
    cluster.settle()
    assert events_about(cluster, "c") == [f"Warning ProvisioningFailed: {why}"]


def test_missing_class_records_an_event_and_is_waited_for(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(claim("c"))
    cluster.settle()
    assert events_about(cluster, "c") == [
        f'Warning ProvisioningFailed: storageclass.storage.k8s.io "{CLASS}" not found'
    ]
    cluster.add(storage_class(CLASS, OURS))
    cluster.advance(1)
    assert claim_of(cluster, "c").status.phase == "Bound"


def test_provisioning_can_be_disabled(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, OURS))
    start(cluster, enable_dynamic_provisioning=False)
    cluster.add(claim("c"))
    cluster.advance(60)
    assert (claim_of(cluster, "c").status.phase, events_about(cluster, "c")) == ("Pending", [])


@pytest.mark.parametrize(
    ("fields", "spec", "why"),
    [
        (
            {"mountOptions": ["ro", "soft"]},
            {},
            "Mount options are not supported by the provisioner but "
            f'StorageClass "{CLASS}" has mount options [ro soft]',
        ),
        (
            {},
            {"volumeMode": "Block"},
            f'Failed to provision volume with StorageClass "{CLASS}": '
            f"{OURS} does not support block volume provisioning",
        ),
        (
            {},
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}},
            f'plugin "{OURS}" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource',
        ),
    ],
)
def test_unsupported_host_path_features_record_events(
    cluster: Cluster, fields: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    cluster.add(storage_class(CLASS, OURS, **fields))
    start(cluster)
    cluster.add(claim("c", **spec))
    cluster.settle()
    assert events_about(cluster, "c") == [f"Warning ProvisioningFailed: {why}"]


# With a pod's node


def test_wait_for_first_consumer_provisions_after_node_selection(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, OURS, volumeBindingMode="WaitForFirstConsumer"), node("n1"))
    start(cluster)
    cluster.add(claim("c"))
    cluster.advance(60)
    assert claim_of(cluster, "c").status.phase == "Pending"
    cluster.client.patch(PersistentVolumeClaim, "c", {"metadata": {"annotations": {SELECTED_NODE: "n1"}}}, NS)
    cluster.advance(1)
    made = volume_of(cluster, claim_of(cluster, "c").spec.volume_name)
    assert made.spec.node_affinity is not None
    assert made.spec.node_affinity.required is not None
    here = made.spec.node_affinity.required.node_selector_terms[0].match_expressions[0]
    assert (here.key, here.operator, here.values) == ("kubernetes.io/hostname", "In", ("n1",))


def test_missing_selected_node_records_an_event(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, OURS, volumeBindingMode="WaitForFirstConsumer"))
    start(cluster)
    cluster.add(claim("c", annotations={SELECTED_NODE: "n1"}))
    cluster.settle()
    assert events_about(cluster, "c") == ['Warning ProvisioningFailed: Failed to get target node: node "n1" not found']


def test_failed_provisioning_reschedules_the_pod(cluster: Cluster) -> None:
    disks = ScriptedProvisioner()
    disks.refuses = "no room"
    cluster.add(storage_class(CLASS, disks.name, volumeBindingMode="WaitForFirstConsumer"), node("n1"))
    start(cluster, disks)
    cluster.add(claim("c", annotations={SELECTED_NODE: "n1"}))
    cluster.settle()
    assert SELECTED_NODE not in claim_of(cluster, "c").metadata.annotations
    why = f'Failed to provision volume with StorageClass "{CLASS}": no room'
    assert events_about(cluster, "c")[0] == f"Warning ProvisioningFailed: {why}"


# A provisioner of one's own


def test_custom_provisioner_provisions_and_deletes(cluster: Cluster) -> None:
    disks = ScriptedProvisioner()
    cluster.add(storage_class(CLASS, disks.name, mountOptions=["ro"]))
    start(cluster, disks)
    cluster.add(claim("c"))
    cluster.advance(1)
    name = made_for(cluster, "c")
    assert (phase_of_volume(cluster, name), [one.name for one in disks.made]) == ("Bound", [name])
    delete_claim(cluster, "c")
    cluster.advance(1)
    assert (phase_of_volume(cluster, name), disks.deleted) == ("", [name])


def test_failed_volume_deletion_is_retried(cluster: Cluster) -> None:
    disks = ScriptedProvisioner()
    cluster.add(storage_class(CLASS, disks.name))
    start(cluster, disks)
    cluster.add(claim("c"))
    cluster.advance(1)
    name = made_for(cluster, "c")
    disks.cannot_delete = VolumeInUse("a node still has it")
    delete_claim(cluster, "c")
    cluster.advance(1)
    assert (phase_of_volume(cluster, name), events_about(cluster, name)) == (
        "Released",
        ["Normal VolumeDelete: a node still has it"],
    )
    disks.cannot_delete = VolumeDeletionError("no connection")
    cluster.advance(16)
    assert phase_of_volume(cluster, name) == "Failed"
    disks.cannot_delete = None
    cluster.advance(16)
    assert (phase_of_volume(cluster, name), disks.deleted) == ("", [name])


def test_lost_response_does_not_provision_twice(cluster: Cluster) -> None:
    disks = ScriptedProvisioner()
    cluster.add(storage_class(CLASS, disks.name))
    start(cluster, disks)
    cluster.faults.lose_answers("create", "persistentvolumes")
    cluster.add(claim("c"))
    cluster.advance(30)
    assert [one.metadata.name for one in cluster.client.list(PersistentVolume).items] == [made_for(cluster, "c")]
    assert (claim_of(cluster, "c").status.phase, disks.deleted) == ("Bound", [])


def test_rejected_volume_is_deleted_again(cluster: Cluster) -> None:
    disks = ScriptedProvisioner()
    cluster.add(storage_class(CLASS, disks.name))
    start(cluster, disks)
    cluster.faults.fail("create", "persistentvolumes", forbidden("", "persistentvolumes", "x", "no"))
    cluster.add(claim("c"))
    cluster.settle()
    assert disks.deleted == [made_for(cluster, "c")]
    assert "Error creating provisioned PV object for claim default/c" in events_about(cluster, "c")[0]
    cluster.advance(20)
    assert claim_of(cluster, "c").status.phase == "Bound"


def test_stale_claim_does_not_provision(cluster: Cluster) -> None:
    disks = ScriptedProvisioner()
    disks.refuses = "no room"
    cluster.add(storage_class(CLASS, disks.name))
    start(cluster, disks)
    cluster.add(claim("c"))
    cluster.advance(1)
    cluster.faults.delay(60, "watch", "persistentvolumeclaims", times=None)
    cluster.faults.drop_watches("persistentvolumeclaims")
    cluster.settle()
    delete_claim(cluster, "c")
    disks.refuses = ""
    cluster.advance(30)
    assert disks.made == []
