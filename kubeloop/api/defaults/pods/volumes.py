# SPDX-License-Identifier: Apache-2.0
"""Defaults of volumes: those of pods, and the sources they share with persistent volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.empty_lists import null_if_empty
from kubeloop.api.defaults.pods.containers import default_field_ref
from kubeloop.api.defaults.pods.images import pull_policy_of
from kubeloop.api.defaults.pods.resource_amounts import round_requirements
from kubeloop.api.generated.core_v1 import (
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    ImageVolumeSource,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    ProjectedVolumeSource,
    Volume,
)

_FILE_MODE = 0o644
_TOKEN_LIFETIME_SECONDS = 3600
_EMPTY_DIR = EmptyDirVolumeSource()


def default_volume(volume: Volume) -> None:
    """Apply the defaults of a volume; one without a source is an emptyDir."""
    has_source = False
    for field in _VOLUME_SOURCES:
        source = getattr(volume, field)
        if source is not None:
            has_source = True
            completes = _COMPLETED_SOURCES.get(field)
            if completes is not None:
                completes(source)
    if not has_source:
        force_setattr(volume, "empty_dir", _EMPTY_DIR)


def default_claim_spec(spec: PersistentVolumeClaimSpec) -> None:
    """Apply the defaults of a PersistentVolumeClaim's spec."""
    if spec.volume_mode is None:
        force_setattr(spec, "volume_mode", "Filesystem")
    round_requirements(spec.resources)


def default_persistent_source(spec: PersistentVolumeSpec) -> None:
    """Apply the defaults of the sources that persistent volumes share with pods' volumes."""
    for field in ("host_path", "rbd", "iscsi", "azure_disk", "scale_io"):
        source = getattr(spec, field)
        if source is not None:
            _COMPLETED_SOURCES[field](source)


def _fill(unset: str | None, **defaults: Any) -> Callable[[Any], None]:
    """Return a function that sets the given value in each field that holds `unset`."""
    pairs = tuple(defaults.items())

    def fill(source: Any) -> None:
        for field, value in pairs:
            if getattr(source, field) == unset:
                force_setattr(source, field, value)

    return fill


def _default_host_path(source: Any) -> None:
    # An explicit empty type already means "not checked".
    if source.type is None:
        force_setattr(source, "type", "")


def _default_mode(source: Any) -> None:
    if source.default_mode is None:
        force_setattr(source, "default_mode", _FILE_MODE)


def _default_downward_api(source: DownwardAPIVolumeSource) -> None:
    _default_mode(source)
    for item in source.items:
        if item.field_ref is not None:
            default_field_ref(item.field_ref)


def _default_projected(source: ProjectedVolumeSource) -> None:
    _default_mode(source)
    null_if_empty(source, "sources")
    for projection in source.sources or ():
        if projection.downward_api is not None:
            for item in projection.downward_api.items:
                if item.field_ref is not None:
                    default_field_ref(item.field_ref)
        token = projection.service_account_token
        if token is not None and token.expiration_seconds is None:
            force_setattr(token, "expiration_seconds", _TOKEN_LIFETIME_SECONDS)


def _default_ephemeral(source: EphemeralVolumeSource) -> None:
    if source.volume_claim_template is not None:
        default_claim_spec(source.volume_claim_template.spec)


def _default_image(source: ImageVolumeSource) -> None:
    if not source.pull_policy:
        force_setattr(source, "pull_policy", pull_policy_of(source.reference))


_COMPLETED_SOURCES: dict[str, Callable[[Any], None]] = {
    "azure_disk": _fill(None, caching_mode="ReadWrite", fs_type="ext4", read_only=False, kind="Shared"),
    "config_map": _default_mode,
    "downward_api": _default_downward_api,
    "ephemeral": _default_ephemeral,
    "host_path": _default_host_path,
    "image": _default_image,
    "iscsi": _fill("", iscsi_interface="default"),
    "projected": _default_projected,
    "rbd": _fill("", pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "scale_io": _fill("", storage_mode="ThinProvisioned", fs_type="xfs"),
    "secret": _default_mode,
}
# Every field of a volume but its name is a source.
_VOLUME_SOURCES: tuple[str, ...] = tuple(field for field in Volume.__struct_fields__ if field != "name")
