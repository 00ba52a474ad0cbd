# SPDX-License-Identifier: Apache-2.0
"""Facts about claims and volumes that controllers share: classes, sizes, binding, use by pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import (
    ContainerStatus,
    CSIPersistentVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Volume,
)
from kubeloop.api.generated.storage_v1 import CSIDriver, VolumeAttachment
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.scalars.quantity import Quantity, parse_quantity

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
BETA_STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
STORAGE: Final = "storage"
FILESYSTEM: Final = "Filesystem"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
# Annotation of a node whose volumes the attach-detach controller manages, as all do nowadays.
CONTROLLER_MANAGED_ATTACH_ANNOTATION: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
# Prefix of the unique names of CSI volumes.
CSI_VOLUME_PREFIX: Final = "kubernetes.io/csi/"
# An index of pods: by `namespace/name` of the claims that they use.
PODS_BY_CLAIM: Final = "claim"
# An index of volumes: by CSI driver.
VOLUMES_BY_DRIVER: Final = "driver"
# An index of attachments: by node.
ATTACHMENTS_BY_NODE: Final = "node"

# CSI drivers that replace the in-tree volume plugins.
CSI_DRIVERS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class PodClaimUse(NamedTuple):
    """Claim that a pod names, or that is created for one of its ephemeral volumes."""

    name: str
    volume: Volume


def claim_uses(pod: Pod) -> Iterator[PodClaimUse]:
    """Yield the claims that a pod's volumes use."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield PodClaimUse(volume.persistent_volume_claim.claim_name, volume)
        elif volume.ephemeral is not None:
            yield PodClaimUse(ephemeral_claim_name(pod, volume), volume)


def ephemeral_claim_name(pod: Pod, volume: Volume) -> str:
    """Return the name of the claim that belongs to an ephemeral volume."""
    return f"{pod.metadata.name}-{volume.name}"


def claim_keys_of(pod: Pod) -> tuple[str, ...]:
    """Index pods by the claims that they use."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            break
    else:
        return ()  # as for most pods, which are indexed at every change
    return tuple(f"{pod.metadata.namespace}/{use.name}" for use in claim_uses(pod) if use.name)


def driver_of(volume: PersistentVolume) -> tuple[str, ...]:
    """Index volumes by their CSI driver."""
    return (volume.spec.csi.driver,) if volume.spec.csi is not None else ()


# Plugin names that differ from the field's name.
_PLUGINS: Final = {
    "host_path": "kubernetes.io/host-path",
    "local": "kubernetes.io/local-volume",
    "nfs": "kubernetes.io/nfs",
    "iscsi": "kubernetes.io/iscsi",
    "fc": "kubernetes.io/fc",
}


def plugin_of(volume: PersistentVolume) -> str:
    """Return the name of a volume's plugin, as in metrics."""
    if volume.spec.csi is not None:
        return f"kubernetes.io/csi:{volume.spec.csi.driver}"
    return next((name for field, name in _PLUGINS.items() if getattr(volume.spec, field) is not None), "N/A")


def node_of_attachment(attachment: VolumeAttachment) -> tuple[str, ...]:
    """Index attachments by node."""
    return (attachment.spec.node_name,)


def unique_volume_name(source: CSIPersistentVolumeSource) -> str:
    """Return a volume's unique name, as in a node's status."""
    return f"{CSI_VOLUME_PREFIX}{source.driver}^{source.volume_handle}"


def is_attachable(driver: CSIDriver | None) -> bool:
    """Return True unless the CSI driver states that its volumes need no attach operation."""
    return driver is None or driver.spec.attach_required is not False


def bound_volume(claim: PersistentVolumeClaim) -> str:
    """Return the name of the volume that a claim is bound to; empty if it is unbound."""
    return claim.spec.volume_name if claim.status.phase == "Bound" else ""


def is_claim_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return True if an ephemeral claim belongs to exactly this pod."""
    owner = controller_of(claim.metadata.owner_references)
    same_place = claim.metadata.namespace == pod.metadata.namespace
    return owner is not None and same_place and owner.uid == pod.metadata.uid


def uses_claim(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Return True if the pod names the claim or, with `ephemeral`, the claim belongs to one of its volumes."""
    for use in claim_uses(pod):
        if use.name != claim.metadata.name:
            continue
        if use.volume.ephemeral is None or (ephemeral and is_claim_for_pod(claim, pod)):
            return True
    return False


def has_released_volumes(pod: Pod) -> bool:
    """Return True if no container of the pod runs or will run again."""
    status = pod.status
    if status.phase in ("Failed", "Succeeded"):
        return True
    started = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    return pod.metadata.deletion_timestamp is not None and all(_none_runs(one) for one in started)


def _none_runs(statuses: Iterable[ContainerStatus]) -> bool:
    return all(
        one.state is not None and (one.state.terminated is not None or one.state.waiting is not None)
        for one in statuses
    )


def has_storage_class(claim: PersistentVolumeClaim) -> bool:
    """Return True if the claim requests a storage class, even the empty one."""
    return BETA_STORAGE_CLASS_ANNOTATION in claim.metadata.annotations or claim.spec.storage_class_name is not None


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """Return the storage class of a claim; the legacy annotation has precedence over the field."""
    annotated = claim.metadata.annotations.get(BETA_STORAGE_CLASS_ANNOTATION)
    return annotated if annotated is not None else claim.spec.storage_class_name or ""


def class_of_volume(volume: PersistentVolume) -> str:
    """Return the storage class of a volume; the legacy annotation has precedence over the field."""
    annotated = volume.metadata.annotations.get(BETA_STORAGE_CLASS_ANNOTATION)
    return annotated if annotated is not None else volume.spec.storage_class_name


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
    """Return the storage that a claim requests."""
    resources = claim.spec.resources
    return parse_quantity(resources.requests.get(STORAGE, "0") if resources is not None else "0")


def capacity_of_volume(volume: PersistentVolume) -> Quantity:
    """Return the storage capacity of a volume."""
    return parse_quantity(volume.spec.capacity.get(STORAGE, "0"))


def is_volume_bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if the volume is reserved for the claim by name, or is bound to exactly this claim."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (meta.namespace, meta.name):
        return False
    return not reference.uid or reference.uid == meta.uid


def has_same_volume_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if volume and claim have the same volume mode."""
    return (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)


def has_same_attributes_class(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if volume and claim have the same VolumeAttributesClass."""
    wanted = claim.spec.volume_attributes_class_name or ""
    return (volume.spec.volume_attributes_class_name or "") == wanted


def has_access_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if the volume has all access modes that the claim requests."""
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def reference_to_claim(claim: PersistentVolumeClaim) -> ObjectReference:
    """Return the claimRef of a claim."""
    meta = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
