# SPDX-License-Identifier: Apache-2.0
"""Errors of a pod's claims with the kubelet's messages. Reads caches only."""

from __future__ import annotations

from typing import Any, Protocol

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kubeloop.api.pods.volumes import (
    CLAIM_PROTECTION,
    FILESYSTEM,
    PodClaimUse,
    claim_uses,
    is_claim_for_pod,
)
from kubeloop.kubelet.sync.containers import all_containers_of


class ClaimLister(Protocol):
    """Lister, as far as it is needed here."""

    def get(self, namespace: str, name: str) -> Any | None:
        """Return an object, or None."""


class ClaimChecker:
    """Checks claims and their volumes."""

    def __init__(self, claims: ClaimLister, volumes: ClaimLister) -> None:
        self._claims = claims
        self._volumes = volumes

    def claim_errors(self, pod: Pod) -> dict[str, str]:
        """Return the errors by volume name; volumes that no container uses are ignored."""
        found = {use.volume.name: why for use in claim_uses(pod) if (why := self._claim_error(pod, use))}
        if found:
            used = used_volumes(pod)
            found = {name: why for name, why in found.items() if name in used}
        return found

    def volume_of(self, pod: Pod, volume: Volume) -> PersistentVolume | None:
        """Return the persistent volume that is bound to the claim of a pod's volume."""
        use = next((one for one in claim_uses(pod) if one.volume.name == volume.name), None)
        claim = self._claims.get(pod.metadata.namespace, use.name) if use is not None else None
        found: PersistentVolume | None = self._volumes.get("", claim.spec.volume_name) if claim is not None else None
        return found

    def _claim_error(self, pod: Pod, use: PodClaimUse) -> str:
        claim: PersistentVolumeClaim | None = self._claims.get(pod.metadata.namespace, use.name)
        where = f"error processing PVC {pod.metadata.namespace}/{use.name}: "
        if claim is None:
            return f'{where}failed to fetch PVC from API server: persistentvolumeclaims "{use.name}" not found'
        if why := _claim_state_error(claim):
            return where + why
        if use.volume.ephemeral is not None and not is_claim_for_pod(claim, pod):
            owner = f"{pod.metadata.namespace}/{pod.metadata.name}"
            return f"PVC {claim.metadata.namespace}/{use.name} was not created for pod {owner} (pod is not owner)"
        volume: PersistentVolume | None = self._volumes.get("", claim.spec.volume_name)
        if why := _volume_binding_error(volume, claim):
            return where + why
        mode = (volume.spec.volume_mode if volume is not None else "") or FILESYSTEM
        return _volume_mode_error(pod, use.volume.name, mode)


def _claim_state_error(claim: PersistentVolumeClaim) -> str:
    if claim.metadata.deletion_timestamp is not None and CLAIM_PROTECTION not in claim.metadata.finalizers:
        return "PVC is being deleted"
    if claim.status.phase != "Bound":
        return "PVC is not bound"
    return "" if claim.spec.volume_name else "PVC has empty pvc.Spec.VolumeName"


def _volume_binding_error(volume: PersistentVolume | None, claim: PersistentVolumeClaim) -> str:
    name = claim.spec.volume_name
    if volume is None:
        return f'failed to fetch PV {name} from API server: persistentvolumes "{name}" not found'
    reference, uid = volume.spec.claim_ref, claim.metadata.uid
    if reference is None:
        why = "it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    elif reference.uid != uid:
        why = f"its pv.Spec.ClaimRef.UID {reference.uid} does not point to claim.UID {uid}"
    else:
        return ""
    return f"found PV object {name} but {why}"


def _volume_mode_error(pod: Pod, name: str, mode: str) -> str:
    """Return an error if a filesystem volume is used as a device, or a block volume is mounted."""
    mounts = any(one.name == name for container in all_containers_of(pod) for one in container.volume_mounts)
    devices = any(one.name == name for container in all_containers_of(pod) for one in container.volume_devices)
    for is_used, right, field in ((mounts, FILESYSTEM, "volumeMounts"), (devices, "Block", "volumeDevices")):
        if is_used and mode != right:
            return f"volume {name} has volumeMode {mode}, but is specified in {field}"
    return ""


def used_volumes(pod: Pod) -> set[str]:
    """Return the names of the volumes that any container of a pod uses."""
    mounts = {one.name for container in all_containers_of(pod) for one in container.volume_mounts}
    return mounts | {one.name for container in all_containers_of(pod) for one in container.volume_devices}
