# SPDX-License-Identifier: Apache-2.0
"""Validation of a container's environment."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated.core_v1 import EnvFromSource, EnvVar, EnvVarSource, FileKeySelector
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required
from kubeloop.api.meta.name_rules import (
    check_config_map_key,
    check_dns1123_subdomain,
    check_generate_name,
    check_relaxed_env_var_name,
)
from kubeloop.api.validation.pods.volumes.downward_api import ENV_FIELDS, validate_field_ref, validate_resource_ref
from kubeloop.api.validation.pods.volumes.file_paths import validate_no_backsteps
from kubeloop.api.validation.shared.scalars import check_errors, validate_dns_label, validate_dns_subdomain

_NO_SOURCE: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_MORE_THAN_ONE: Final = "may not have more than one field specified at a time"


def validate_env(variables: tuple[EnvVar, ...], path: FieldPath) -> FieldErrors:
    """Validate environment variables."""
    errors: FieldErrors = []
    for index, variable in enumerate(variables):
        if not variable.name:
            errors.append(required(path.index(index).child("name")))
        elif messages := check_relaxed_env_var_name(variable.name):
            at = path.index(index).child("name")
            errors += [invalid(at, variable.name, message) for message in messages]
        if variable.value_from is not None:
            at = path.index(index).child("valueFrom")
            errors += _validate_source(variable.value_from, bool(variable.value), at)
    return errors


def _validate_source(source: EnvVarSource, has_value: bool, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    present = 0
    if source.field_ref is not None:
        present += 1
        errors += validate_field_ref(source.field_ref, ENV_FIELDS, path.child("fieldRef"))
    if source.resource_field_ref is not None:
        present += 1
        errors += validate_resource_ref(source.resource_field_ref, path.child("resourceFieldRef"), in_volume=False)
    if source.config_map_key_ref is not None:
        present += 1
        errors += _validate_key(source.config_map_key_ref, path.child("configMapKeyRef"))
    if source.secret_key_ref is not None:
        present += 1
        errors += _validate_key(source.secret_key_ref, path.child("secretKeyRef"))
    if source.file_key_ref is not None:
        present += 1
        errors += _validate_file_key(source.file_key_ref, path.child("fileKeyRef"))
    if not present:
        errors.append(invalid(path, "", _NO_SOURCE))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif present > 1:
        errors.append(invalid(path, "", _MORE_THAN_ONE))
    return errors


def _validate_key(ref: Any, path: FieldPath) -> FieldErrors:
    """Validate a reference to a key of a Secret or ConfigMap."""
    errors = validate_dns_subdomain(ref.name, path.child("name"))
    if not ref.key:
        return [*errors, required(path.child("key"))]
    return errors + check_errors(check_config_map_key, ref.key, path.child("key"))


def _validate_file_key(ref: FileKeySelector, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if ref.key:
        errors += check_errors(check_relaxed_env_var_name, ref.key, path.child("key"))
    else:
        errors.append(required(path.child("key")))
    if ref.volume_name:
        errors += validate_dns_label(ref.volume_name, path.child("volumeName"))
    else:
        errors.append(required(path.child("volumeName")))
    if ref.path:
        errors += validate_no_backsteps(ref.path, path.child("path"))
    else:
        errors.append(required(path.child("path")))
    return errors


def validate_env_from(sources: tuple[EnvFromSource, ...], path: FieldPath) -> FieldErrors:
    """Validate sources of environment variables."""
    errors: FieldErrors = []
    for index, source in enumerate(sources):
        at = path.index(index)
        if source.prefix:
            errors += check_errors(check_relaxed_env_var_name, source.prefix, at.child("prefix"))
        if source.config_map_ref is not None:
            errors += _validate_ref(source.config_map_ref.name, at.child("configMapRef", "name"))
        if source.secret_ref is not None:
            errors += _validate_ref(source.secret_ref.name, at.child("secretRef", "name"))
        if source.config_map_ref is None and source.secret_ref is None:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif source.config_map_ref is not None and source.secret_ref is not None:
            errors.append(invalid(path, "", _MORE_THAN_ONE))
    return errors


def _validate_ref(name: str, path: FieldPath) -> FieldErrors:
    if not name:
        return [required(path)]
    return [invalid(path, name, message) for message in check_generate_name(check_dns1123_subdomain, name)]
