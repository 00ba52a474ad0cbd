# SPDX-License-Identifier: Apache-2.0
"""Validation of downward API references: fields of the pod and resources of its containers."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import ObjectFieldSelector, ResourceFieldSelector
from kubeloop.api.meta.field_path import (
    FieldError,
    FieldErrors,
    FieldPath,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.validation.shared.scalars import validate_qualified_name

ENV_FIELDS: Final = frozenset(
    (
        "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
        "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
    )
)  # fmt: skip
VOLUME_FIELDS: Final = frozenset(
    ("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid")
)
# Fields that the API supports at all; individual uses allow fewer.
_KNOWN_FIELDS: Final = frozenset(
    ENV_FIELDS | VOLUME_FIELDS | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_SUBSCRIPTED: Final = ("metadata.annotations", "metadata.labels")
_RESOURCES: Final = frozenset(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES: Final = ("requests.hugepages-", "limits.hugepages-")
_SIZES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_field_ref(ref: ObjectFieldSelector, allowed: frozenset[str], path: FieldPath) -> FieldErrors:
    """Validate a fieldRef."""
    at = path.child("fieldPath")
    if not ref.field_path:
        return [required(at)]
    if ref.api_version != "v1":
        return [_unconvertible(ref, at, f"unsupported pod version: {ref.api_version}")]
    base, subscript = split_subscript(ref.field_path)
    if subscript is not None:
        if base not in _SUBSCRIPTED:
            return [_unconvertible(ref, at, f"field label does not support subscript: {ref.field_path}")]
        return validate_qualified_name(subscript.lower() if base == "metadata.annotations" else subscript, path)
    if base == "spec.host":
        base = "spec.nodeName"
    if base not in _KNOWN_FIELDS:
        return [_unconvertible(ref, at, f"field label not supported: {base}")]
    return [] if base in allowed else [not_supported(at, base, allowed)]


def _unconvertible(ref: ObjectFieldSelector, path: FieldPath, why: str) -> FieldError:
    return invalid(path, ref.field_path, f"error converting fieldPath: {why}")


def split_subscript(field_path: str) -> tuple[str, str | None]:
    """Split a subscript off a field path: `metadata.labels['app']` is `metadata.labels` and `app`."""
    base, bracket, rest = field_path.partition("['")
    if base and bracket and rest.endswith("']"):
        return base, rest[:-2]
    return field_path, None


def validate_resource_ref(ref: ResourceFieldSelector, path: FieldPath, in_volume: bool) -> FieldErrors:
    """Validate a resourceFieldRef."""
    errors: FieldErrors = []
    if in_volume and not ref.container_name:
        errors.append(required(path.child("containerName")))
    elif not ref.resource:
        errors.append(required(path.child("resource")))
    elif ref.resource not in _RESOURCES and not ref.resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(path.child("resource"), ref.resource, _RESOURCES))
    return errors + _validate_divisor(ref, path.child("divisor"))


def _validate_divisor(ref: ResourceFieldSelector, path: FieldPath) -> FieldErrors:
    if ref.divisor == "0":
        return []
    name = ref.resource.partition(".")[2]
    if ref.resource in _RESOURCES and name == "cpu":
        wrong = ref.divisor not in ("1m", "1")
        detail = "only divisor's values 1m and 1 are supported with the cpu resource"
    elif ref.resource in _RESOURCES or ref.resource.startswith(_HUGE_PAGES):
        wrong = ref.divisor not in _SIZES
        known = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(name, "hugepages")
        detail = f"only divisor's values {', '.join(_SIZES)} are supported with the {known} resource"
    else:
        return []
    return [invalid(path, ref.resource, detail)] if wrong else []
