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


_NO_SCHEMA: Final = "may only be set when validations.schema is included"


class VersionSchemas:
    """Schemas and selectable fields of all versions.

    Upstream keeps what all versions share above the versions, and what they do not share in each of them.
    """

    def __init__(self, versions: tuple[CustomResourceDefinitionVersion, ...]) -> None:
        self._versions = versions
        self._schemas = [_schema_of(version) for version in versions]
        self._is_shared = all(one == self._schemas[0] for one in self._schemas)
        self._has_shared_fields = all(one.selectable_fields == versions[0].selectable_fields for one in versions)

    def validate_own_schema(self, index: int, path: FieldPath) -> FieldErrors:
        """Validate the schema of one version, if they are not shared."""
        return [] if self._is_shared else self._validate_schema(index, path.child("schema"))

    def validate_own_fields(self, index: int, path: FieldPath) -> FieldErrors:
        """Validate the selectable fields of one version, if they are not shared."""
        fields = self._versions[index].selectable_fields
        if self._has_shared_fields or not fields:
            return []
        schema, at = self._schemas[index], path.child("selectableFields")
        if schema is None or self._is_shared:  # a version has no schema of its own if all share one
            return [invalid(at, "", _SHARED_SCHEMA)]
        return _validate_selectable(fields, schema, at)

    def validate_shared_schema(self) -> FieldErrors:
        """Validate the schema that all versions share."""
        return self._validate_schema(0, _SPEC.child("validation")) if self._versions and self._is_shared else []

    def validate_shared_fields(self) -> FieldErrors:
        """Validate the selectable fields that all versions share."""
        if not (self._versions and self._has_shared_fields and self._versions[0].selectable_fields):
            return []
        schema, at = self._schemas[0], _SPEC.child("selectableFields")
        if schema is None or not self._is_shared:
            return [invalid(at, "", _NO_SCHEMA)]
        return _validate_selectable(self._versions[0].selectable_fields, schema, at)

    def _validate_schema(self, index: int, path: FieldPath) -> FieldErrors:
        schema = self._schemas[index]
        if schema is None:
            return []
        return validate_schema(schema, path.child("openAPIV3Schema"), _has_status(self._versions[index]))


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
