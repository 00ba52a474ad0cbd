# SPDX-License-Identifier: Apache-2.0
"""Strategies of PersistentVolumes, PersistentVolumeClaims and CSINodes."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from kubeloop.api.generated.storage_v1 import CSINode
from kubeloop.api.scalars import wire
from kubeloop.api.strategy.base import RESETS_METADATA, RESETS_SPEC, STATUS_METADATA, Strategy

_OLD_DATA_SOURCES = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))


def _refine_volume(new: PersistentVolume, old: PersistentVolume | None) -> None:
    if old is None:
        force_setattr(new.status, "phase", "Pending")


def _refine_volume_status(new: PersistentVolume, old: PersistentVolume) -> None:
    if new.status.phase == old.status.phase and new.status.last_phase_transition_time is None:
        force_setattr(new.status, "last_phase_transition_time", old.status.last_phase_transition_time)


def _stamp_volume(new: PersistentVolume, old: PersistentVolume | None, now: str) -> None:
    time = new.status.last_phase_transition_time
    if old is not None and (
        new.status.phase == old.status.phase or time not in (None, old.status.last_phase_transition_time)
    ):
        return
    force_setattr(new.status, "last_phase_transition_time", wire.Time(now))


def _refine_claim(new: PersistentVolumeClaim, old: PersistentVolumeClaim | None) -> None:
    if old is None:
        force_setattr(new.status, "phase", "Pending")
    _drop_foreign_source(new.spec, None if old is None else old.spec)
    _drop_unknown_source(new.spec, None if old is None else old.spec)
    _link_sources(new.spec)


def _drop_disabled_claim_status(
    new: PersistentVolumeClaim, old: PersistentVolumeClaim | None, features: Features
) -> None:
    if (old is None or old.status.health_status is None) and not features.is_enabled("CSIVolumeHealth"):
        force_setattr(new.status, "health_status", None)


def _drop_foreign_source(spec: PersistentVolumeClaimSpec, old: PersistentVolumeClaimSpec | None) -> None:
    """Drop a data source in another namespace, which is a disabled feature."""
    ref = spec.data_source_ref
    if ref is not None and ref.namespace and (old is None or old.data_source_ref is None):
        force_setattr(spec, "data_source_ref", None)


def _drop_unknown_source(spec: PersistentVolumeClaimSpec, old: PersistentVolumeClaimSpec | None) -> None:
    """Drop a dataSource of an unknown kind, which this older field always ignored."""
    source = spec.data_source
    if source is None or spec.data_source_ref is not None:
        return
    if old is not None and (old.data_source is not None or old.data_source_ref is not None):
        return
    if (source.kind, source.api_group or "") not in _OLD_DATA_SOURCES:
        force_setattr(spec, "data_source", None)


def _link_sources(spec: PersistentVolumeClaimSpec) -> None:
    """Copy dataSource to dataSourceRef or vice versa, if one is missing."""
    source, ref = spec.data_source, spec.data_source_ref
    if source is not None and ref is None:
        linked = TypedObjectReference(kind=source.kind, name=source.name, api_group=source.api_group)
        force_setattr(spec, "data_source_ref", linked)
    elif ref is not None and source is None and not ref.namespace:
        local = TypedLocalObjectReference(kind=ref.kind, name=ref.name, api_group=ref.api_group)
        force_setattr(spec, "data_source", local)


def _drop_disabled_csi_node_status(new: CSINode, old: CSINode | None, features: Features) -> None:
    if (old is None or not old.status.storage_health) and not features.is_enabled("CSIVolumeHealth"):
        force_setattr(new.status, "storage_health", ())


VOLUME = Strategy(
    has_status=True,
    reset_fields=RESETS_SPEC,
    refine=_refine_volume,
    refine_status=_refine_volume_status,
    set_timestamps=_stamp_volume,
)
CLAIM = Strategy(
    has_status=True,
    reset_fields=RESETS_SPEC,
    refine=_refine_claim,
    drop_disabled_status=_drop_disabled_claim_status,
)
CSI_NODE = Strategy(
    has_status=True,
    status_preserved_meta=STATUS_METADATA,
    reset_fields=RESETS_METADATA,
    allow_unconditional_update=False,
    drop_disabled_status=_drop_disabled_csi_node_status,
)
