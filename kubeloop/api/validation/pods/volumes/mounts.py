# SPDX-License-Identifier: Apache-2.0
"""Validation of volume mounts and volume devices of containers."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, VolumeMount
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from kubeloop.api.validation.pods.volumes.file_paths import validate_local_descending_path, validate_no_backsteps
from kubeloop.api.validation.pods.volumes.volumes import Volumes

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_READ_ONLY: Final = ("Disabled", "Enabled", "IfPossible")
_OPTIONS: Final = ("nodev", "noexec", "nosuid")


def validate_mounts(container: Container | EphemeralContainer, volumes: Volumes, path: FieldPath) -> FieldErrors:
    """Validate the volume mounts of a container."""
    errors: FieldErrors = []
    device_names = {device.name for device in container.volume_devices}
    device_paths = {device.device_path for device in container.volume_devices}
    taken: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        at = path.index(index)
        if not mount.name:
            errors.append(required(at.child("name")))
        if mount.name not in volumes:
            errors.append(not_found(at.child("name"), mount.name))
        if not mount.mount_path:
            errors.append(required(at.child("mountPath")))
        if mount.mount_path in taken:
            errors.append(invalid(at.child("mountPath"), mount.mount_path, "must be unique"))
        taken.add(mount.mount_path)
        if mount.name in device_names:
            errors.append(invalid(at.child("name"), mount.name, "must not already exist in volumeDevices"))
        if mount.mount_path in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            errors.append(invalid(at.child("mountPath"), mount.mount_path, detail))
        if mount.sub_path or mount.sub_path_expr:
            errors += _validate_sub_paths(mount, path, at)
        if mount.mount_propagation is not None:
            errors += _validate_propagation(mount.mount_propagation, container, path.child("mountPropagation"))
        if mount.recursive_read_only is not None:
            errors += _validate_recursive(mount, path.child("recursiveReadOnly"))
        if mount.bind_mount_options:
            errors += _validate_options(mount, volumes, at.child("bindMountOptions"))
    return errors


def _validate_sub_paths(mount: VolumeMount, path: FieldPath, at: FieldPath) -> FieldErrors:
    errors = validate_local_descending_path(mount.sub_path, path.child("subPath"))
    if mount.sub_path_expr:
        if mount.sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(at.child("subPathExpr"), mount.sub_path_expr, detail))
        errors += validate_local_descending_path(mount.sub_path_expr, path.child("subPathExpr"))
    return errors


def _validate_propagation(mode: str, container: Container | EphemeralContainer, path: FieldPath) -> FieldErrors:
    if mode not in _PROPAGATIONS:
        return [not_supported(path, mode, _PROPAGATIONS)]
    context = container.security_context
    if mode == "Bidirectional" and not (context is not None and context.privileged):
        return [forbidden(path, "Bidirectional mount propagation is available only to privileged containers")]
    return []


def _validate_recursive(mount: VolumeMount, path: FieldPath) -> FieldErrors:
    if mount.recursive_read_only not in _READ_ONLY:
        return [not_supported(path, mount.recursive_read_only, _READ_ONLY)]
    errors: FieldErrors = []
    if mount.recursive_read_only != "Disabled":
        if not mount.read_only:
            errors.append(forbidden(path, "may only be specified when readOnly is true"))
        if mount.mount_propagation not in (None, "None"):
            errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def _validate_options(mount: VolumeMount, volumes: Volumes, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for index, option in enumerate(mount.bind_mount_options):
        if option not in _OPTIONS:
            errors.append(not_supported(path.index(index), option, _OPTIONS))
        if option in mount.bind_mount_options[:index]:
            errors.append(duplicate(path.index(index), option))
    volume = volumes.get(mount.name)
    if volume is not None and volume.image is not None:
        detail = "bindMountOptions may not be used with image volumes"
        errors.append(invalid(path, mount.bind_mount_options, detail))
    return errors


def validate_devices(container: Container | EphemeralContainer, volumes: Volumes, path: FieldPath) -> FieldErrors:
    """Validate the volume devices of a container."""
    errors: FieldErrors = []
    mount_names = {mount.name for mount in container.volume_mounts}
    mount_paths = {mount.mount_path for mount in container.volume_mounts}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.volume_devices):
        at = path.index(index)
        name, target = device.name, device.device_path
        errors += _validate_device_name(name, names, volumes, at.child("name"))
        if not target:
            errors.append(required(at.child("devicePath")))
        if target in paths:
            errors.append(invalid(at.child("devicePath"), target, "must be unique"))
        if validate_no_backsteps(target, path):
            errors.append(invalid(at.child("devicePath"), target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mount_names:
            errors.append(invalid(at.child("name"), name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            errors.append(invalid(at.child("devicePath"), target, detail))
        if name:
            names.add(name)
    return errors


def _validate_device_name(name: str, taken: set[str], volumes: Volumes, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    volume = volumes.get(name)
    if not name:
        errors.append(required(path))
    if name in taken:
        errors.append(invalid(path, name, "must be unique"))
    if volume is None:
        errors.append(not_found(path, name))
    elif volume.persistent_volume_claim is None and volume.ephemeral is None:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid(path, name, detail))
    return errors
