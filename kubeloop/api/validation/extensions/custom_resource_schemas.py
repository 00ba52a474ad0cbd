# SPDX-License-Identifier: Apache-2.0
"""Validation of the schemas and selectable fields of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinitionVersion, SelectableField
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, duplicate, invalid, required, too_many
from kubeloop.api.scalars.wire import NO_JSON
from kubeloop.api.structural.field_paths import FieldPathError, resolve_field_path
from kubeloop.api.structural.schema_checks.structural_schema import validate_schema

_SPEC: Final = FieldPath("spec")
_MAX_SELECTABLE: Final = 8
_SELECTABLE_TYPES: Final = ("string", "boolean", "integer")
_WRONG_TYPE: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)

_SHARED_SCHEMA: Final = "may only be set when `version.schema.openAPIV3Schema` is not included"


def validate_schemas(versions: tuple[CustomResourceDefinitionVersion, ...]) -> FieldErrors:
    """Validate schemas; errors of a schema that all versions share are reported above the versions, as upstream."""
    schemas = [_schema_of(version) for version in versions]
    errors: FieldErrors = []
    shared = all(one == schemas[0] for one in schemas)
    for index, (version, schema) in enumerate(zip(versions, schemas, strict=True)):
        own = _SPEC.child("versions").index(index)
        if schema is not None and not (shared and index):
            at = _SPEC.child("validation") if shared else own.child("schema")
            errors += validate_schema(schema, at.child("openAPIV3Schema"), _has_status(version))
        at = _SPEC if all(one.selectable_fields == version.selectable_fields for one in versions) else own
        if version.selectable_fields and at is own and shared and schema is not None:
            # Upstream has a shared schema above the versions: such a version has none of its own.
            errors.append(invalid(own.child("selectableFields"), "", _SHARED_SCHEMA))
        elif version.selectable_fields and (at is own or not index):
            errors += _validate_selectable(version.selectable_fields, schema or {}, at.child("selectableFields"))
    return errors


def _schema_of(version: CustomResourceDefinitionVersion) -> dict[str, Any] | None:
    if version.schema is None or version.schema.open_apiv3_schema is None:
        return None
    schema: dict[str, Any] = codec.to_plain(version.schema.open_apiv3_schema)
    return schema


def _has_status(version: CustomResourceDefinitionVersion) -> bool:
    return version.subresources is not None and version.subresources.status not in (NO_JSON, b"null")


def _validate_selectable(fields: tuple[SelectableField, ...], schema: dict[str, Any], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[tuple[str, ...]] = set()
    for index, field in enumerate(fields):
        at = path.index(index).child("jsonPath")
        if not field.json_path:
            errors.append(required(at))
            continue
        try:
            steps, found = resolve_field_path(field.json_path, schema, lists=False)
        except FieldPathError as error:
            errors.append(invalid(at, field.json_path, f"is an invalid path: {error}"))
            continue
        if steps[0] == "metadata":
            errors.append(invalid(at, field.json_path, "must not point to fields in metadata"))
        if found.get("type") not in _SELECTABLE_TYPES:
            errors.append(invalid(at, field.json_path, _WRONG_TYPE))
        if tuple(steps) in seen:
            errors.append(duplicate(at, field.json_path))
        seen.add(tuple(steps))
    return [*errors, too_many(path, len(seen), _MAX_SELECTABLE)] if len(seen) > _MAX_SELECTABLE else errors
