# SPDX-License-Identifier: Apache-2.0
"""Warnings about volumes, claims and storage classes."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.warnings.amounts import fraction_warnings
from kubeloop.api.warnings.node_labels import DEPRECATED, term_warnings
from kubeloop.api.warnings.rules import Warnings, on_every_write

_ANNOTATIONS: Final = FieldPath("metadata").child("annotations")
_SPEC: Final = FieldPath("spec")
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_USE_CLASS_NAME: Final = 'deprecated since v1.8; use "storageClassName" attribute instead'
_VOLUME_ANNOTATIONS: Final = {
    _BETA_CLASS: _USE_CLASS_NAME,
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_SOURCES: Final = (
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photon_persistent_disk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scale_io", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageOS", "storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_RECYCLES: Final = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
)
_TOKENS_IN_ATTRIBUTES: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "
    "set to true to prevent possible logging of tokens in volume attributes"
)


def _of_volume(volume: PersistentVolume) -> list[str]:
    spec, annotations = volume.spec, volume.metadata.annotations
    said = [f"{_ANNOTATIONS.key(key)}: {text}" for key, text in _VOLUME_ANNOTATIONS.items() if key in annotations]
    if spec.persistent_volume_reclaim_policy == "Recycle":
        said.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLES}")
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        terms = _SPEC.child("nodeAffinity", "required", "nodeSelectorTerms")
        for i, term in enumerate(spec.node_affinity.required.node_selector_terms or ()):
            said += term_warnings(term, terms.index(i))
    said += [f"spec.{name}: {text}" for name, attribute, text in _SOURCES if getattr(spec, attribute) is not None]
    return said


def _of_claim(claim: PersistentVolumeClaim) -> list[str]:
    said = []
    if _BETA_CLASS in claim.metadata.annotations:
        said.append(f"{_ANNOTATIONS.key(_BETA_CLASS)}: {_USE_CLASS_NAME}")
    resources = claim.spec.resources
    said += fraction_warnings(_SPEC.child("resources", "requests"), resources.requests, "storage")
    said += fraction_warnings(_SPEC.child("resources", "limits"), resources.limits, "storage")
    return said


def _of_class(storage_class: StorageClass) -> list[str]:
    return [
        f"allowedTopologies[{i}].matchLabelExpressions[{j}].key: {DEPRECATED[expression.key]}"
        for i, term in enumerate(storage_class.allowed_topologies)
        for j, expression in enumerate(term.match_label_expressions)
        if expression.key in DEPRECATED
    ]


def _of_capacity(capacity: CSIStorageCapacity) -> list[str]:
    where = capacity.node_topology
    if where is None:
        return []
    expressions = [
        f"nodeTopology.matchExpressions[{i}].key: {expression.key} is {DEPRECATED[expression.key]}"
        for i, expression in enumerate(where.match_expressions)
        if expression.key in DEPRECATED
    ]
    labels = [f"nodeTopology.matchLabels.{key}: {DEPRECATED[key]}" for key in where.match_labels if key in DEPRECATED]
    return expressions + labels


def _driver_created(driver: CSIDriver) -> list[str]:
    unset = driver.spec.token_requests and driver.spec.service_account_token_in_secrets is None
    return [_TOKENS_IN_ATTRIBUTES] if unset else []


def _driver_updated(new: CSIDriver, old: CSIDriver) -> list[str]:
    return _driver_created(new) if new.spec.token_requests != old.spec.token_requests else []


PERSISTENT_VOLUME = on_every_write(_of_volume)
PERSISTENT_VOLUME_CLAIM = on_every_write(_of_claim)
STORAGE_CLASS = on_every_write(_of_class)
CSI_STORAGE_CAPACITY = on_every_write(_of_capacity)
CSI_DRIVER = Warnings(create=_driver_created, update=_driver_updated)
