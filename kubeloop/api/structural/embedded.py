# SPDX-License-Identifier: Apache-2.0
"""Embedded resources in custom resources: validation of apiVersion, kind and metadata."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeloop.api.codec import decode_hook
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required
from kubeloop.api.meta.name_rules import check_dns1035_label
from kubeloop.api.structural.model import Structural
from kubeloop.api.validation.shared.objectmeta import (
    validate_annotations,
    validate_labels,
    validate_owner_references,
)

_META_FIELDS: Final = frozenset(ObjectMeta.__struct_encode_fields__)


def validate_embedded(value: Any, schema: Structural | None, path: FieldPath | None = None) -> FieldErrors:
    """Validate the embedded resources of a value; the root object does not count."""
    if schema is None or not (schema.has_embedded or path is not None):
        return []
    errors: FieldErrors = []
    if isinstance(value, dict):
        if schema.embedded and path is not None:
            errors += _problems(value, path)
        if not schema.has_embedded:
            return errors
        for name in sorted(value):
            declared = schema.child(name)
            if declared is not None:
                at = name in schema.properties
                below = _below(path, name) if at else _entry(path, name)
                errors += validate_embedded(value[name], declared, below)
    elif isinstance(value, list) and schema.has_embedded and path is not None:
        for index, item in enumerate(value):
            errors += validate_embedded(item, schema.items, path.index(index))
    return errors


def prune_embedded_metadata(value: Any, schema: Structural | None, path: str = "") -> list[str]:
    """Remove unknown metadata fields of embedded resources in place; returns their paths."""
    if schema is None or not (schema.has_embedded or path):
        return []
    unknown: list[str] = []
    if isinstance(value, dict):
        if schema.embedded and path and isinstance(meta := value.get("metadata"), dict):
            strange = [name for name in meta if name not in _META_FIELDS]
            unknown += [f"{path}.metadata.{name}" for name in strange]
            value["metadata"] = {name: inner for name, inner in meta.items() if name in _META_FIELDS}
        if schema.has_embedded:
            for name, inner in value.items():
                if isinstance(inner, (dict, list)):
                    unknown += prune_embedded_metadata(inner, schema.child(name), f"{path}.{name}" if path else name)
    elif isinstance(value, list) and schema.has_embedded:
        for index, item in enumerate(value):
            unknown += prune_embedded_metadata(item, schema.items, f"{path}[{index}]")
    return unknown


def _below(path: FieldPath | None, name: str) -> FieldPath:
    return FieldPath(name) if path is None else path.child(name)


def _entry(path: FieldPath | None, name: str) -> FieldPath:
    return FieldPath(name, None, True) if path is None else path.key(name)


def _problems(value: dict[str, Any], path: FieldPath) -> FieldErrors:
    errors = [required(path.child(name)) for name in ("apiVersion", "kind") if name not in value]
    if "apiVersion" in value:
        errors += _api_version_problems(value["apiVersion"], path.child("apiVersion"))
    if "kind" in value:
        errors += _kind_problems(value["kind"], path.child("kind"))
    if "metadata" in value:
        errors += _metadata_problems(value["metadata"], path.child("metadata"))
    return errors


def _metadata_problems(value: Any, path: FieldPath) -> FieldErrors:
    try:
        meta = msgspec.convert(value, ObjectMeta, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        return [invalid(path, value, str(error))]
    errors = validate_labels(meta.labels, path.child("labels"))
    errors += validate_annotations(meta.annotations, path.child("annotations"))
    return errors + validate_owner_references(meta.owner_references, path.child("ownerReferences"))


def _api_version_problems(value: Any, path: FieldPath) -> FieldErrors:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    return [invalid(path, value, f"unexpected GroupVersion string: {value}")] if value.count("/") > 1 else []


def _kind_problems(value: Any, path: FieldPath) -> FieldErrors:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    messages = check_dns1035_label(value.lower())
    detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
    return [invalid(path, value, detail)] if messages else []
