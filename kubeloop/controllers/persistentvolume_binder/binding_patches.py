# SPDX-License-Identifier: Apache-2.0
"""Builds the patches of a binding for volumes and claims; None if nothing changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus
from kubeloop.api.pods.volumes import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    CSI_DRIVERS,
    MIGRATED_TO,
    PROVISIONED_BY,
    STORAGE,
    STORAGE_PROVISIONER,
    is_volume_bound_to_claim,
    reference_to_claim,
)
from kubeloop.api.scalars.quantity import parse_quantity

Patch = dict[str, Any]

PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
IN_TREE_FINALIZER: Final = "kubernetes.io/pv-controller"
EXTERNAL_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
IN_TREE: Final = "kubernetes.io/"
# Phases of a volume whose claim was deleted.
OVER: Final = ("Released", "Failed")


class MissingCapacityError(ValueError):
    """Raised for a volume without a capacity, which cannot be bound."""


def bind_volume_patch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Patch | None:
    """Set the volume's claimRef, and mark it as bound by the controller unless a user reserved it."""
    changes: Patch = {}
    reference, meta = volume.spec.claim_ref, claim.metadata
    known = None if reference is None else (reference.namespace, reference.name, reference.uid)
    if known != (meta.namespace, meta.name, meta.uid):
        changes["spec"] = {"claimRef": {"fieldPath": None, **codec.to_plain(reference_to_claim(claim))}}
    if not is_volume_bound_to_claim(volume, claim) and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        changes["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return changes or None


def unbind_volume_patch(volume: PersistentVolume) -> Patch:
    """Clear the binding of a volume; a reservation by a user stays."""
    if BOUND_BY_CONTROLLER in volume.metadata.annotations:
        return {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
    return {"spec": {"claimRef": {"uid": None}}}


def bind_claim_patch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Patch | None:
    """Set the claim's volume and annotations."""
    annotations: dict[str, str] = {}
    changes: Patch = {}
    if claim.spec.volume_name != volume.metadata.name:
        changes["spec"] = {"volumeName": volume.metadata.name}
        annotations[BOUND_BY_CONTROLLER] = "yes"
    annotations[BIND_COMPLETED] = "yes"
    missing = {key: value for key, value in annotations.items() if key not in claim.metadata.annotations}
    if missing:
        changes["metadata"] = {"annotations": missing}
    return changes or None


def claim_status_patch(claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None) -> Patch | None:
    """Set the claim's phase, and the fields copied from its volume; without one these are cleared."""
    now = claim.status
    changes: Patch = {} if now.phase == phase else {"phase": phase}
    if volume is None:
        changes |= _without_volume(now)
    else:
        changes |= _with_volume(now, phase, volume)
    return {"status": changes} if changes else None


def _without_volume(now: PersistentVolumeClaimStatus) -> Patch:
    has = {
        "accessModes": bool(now.access_modes),
        "capacity": bool(now.capacity),
        "currentVolumeAttributesClassName": now.current_volume_attributes_class_name is not None,
    }
    return {field: None for field, there in has.items() if there}


def _with_volume(now: PersistentVolumeClaimStatus, phase: str, volume: PersistentVolume) -> Patch:
    changes: Patch = {}
    if now.access_modes != volume.spec.access_modes:
        changes["accessModes"] = list(volume.spec.access_modes)
    if now.phase != phase:  # afterwards the claim may show less on purpose, until its file system has grown
        changes |= _capacity(now.capacity, volume)
    attributes = volume.spec.volume_attributes_class_name
    becomes_bound = (now.phase, phase) == ("Pending", "Bound")  # afterwards the resizer reports it
    if becomes_bound and now.current_volume_attributes_class_name != attributes:
        changes["currentVolumeAttributesClassName"] = attributes
    return changes


def _capacity(now: Mapping[str, str], volume: PersistentVolume) -> Patch:
    has = volume.spec.capacity.get(STORAGE)
    if has is None:
        raise MissingCapacityError(f'PersistentVolume "{volume.metadata.name}" is without a storage capacity')
    before = volume.metadata.annotations.get(PRE_RESIZE_CAPACITY)
    if before is not None:
        return {"capacity": {STORAGE: _quantity_or(before, has)}}
    if STORAGE in now and parse_quantity(now[STORAGE]) == parse_quantity(has):
        return {}
    gone = {key: None for key in now if key not in volume.spec.capacity}
    return {"capacity": {**gone, **volume.spec.capacity}}


def _quantity_or(text: str, otherwise: str) -> str:
    try:
        parse_quantity(text)
    except ValueError:
        return otherwise
    return text


def provisioner_patch(claim: PersistentVolumeClaim, provisioner: str) -> Patch | None:
    """Annotate the claim with its provisioner."""
    if claim.metadata.annotations.get(STORAGE_PROVISIONER) == provisioner:
        return None
    annotations: dict[str, str | None] = {BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner}
    return {
        "metadata": {
            "annotations": annotations | migration_annotations({**claim.metadata.annotations, **annotations}, True)
        }
    }


def migration_annotations(annotations: Mapping[str, str | None], of_claim: bool) -> dict[str, str | None]:
    """Return the changed annotations about the migration of an in-tree plugin to CSI."""
    if of_claim:
        provisioner = annotations.get(STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER))
    else:
        provisioner = annotations.get(PROVISIONED_BY)
    if provisioner is None:
        return {}
    driver, said = CSI_DRIVERS.get(provisioner), annotations.get(MIGRATED_TO)
    return {} if (driver or "") == (said or "") else {MIGRATED_TO: driver}


def volume_finalizers(volume: PersistentVolume, own: frozenset[str]) -> list[str] | None:
    """Return the finalizers that a volume should have; None if they are right.

    Only volumes that a built-in or in-tree provisioner created are held until their storage is deleted, and only if
    they are to be deleted with their claim.
    """
    provisioner = volume.metadata.annotations.get(PROVISIONED_BY)
    if provisioner is None:
        return None
    finalizers = list(volume.metadata.finalizers)
    if provisioner in CSI_DRIVERS:
        wanted = [one for one in finalizers if one != IN_TREE_FINALIZER]
    elif provisioner.startswith(IN_TREE) or provisioner in own:
        wanted = _held_back(finalizers, volume.spec.persistent_volume_reclaim_policy)
    else:
        return None
    return None if wanted == finalizers else wanted


def _held_back(finalizers: list[str], policy: str) -> list[str]:
    wanted = [one for one in finalizers if one != EXTERNAL_FINALIZER]
    if policy == "Delete" and IN_TREE_FINALIZER not in wanted:
        wanted.append(IN_TREE_FINALIZER)
    elif policy in ("Retain", "Recycle"):
        wanted = [one for one in wanted if one != IN_TREE_FINALIZER]
    return wanted
