# SPDX-License-Identifier: Apache-2.0
"""Validation that a schema is structural: every field has a type, and combinations only restrict values."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid, required
from kubeloop.api.structural.go_regex import RegexError, compile_pattern
from kubeloop.api.structural.model import Schema

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_BECAUSE_EMBEDDED: Final = "must be object if x-kubernetes-embedded-resource is true"
_NO_NAMES_BUT: Final = (
    "must not specify anything other than name and generateName, but metadata is implicitly specified"
)
# Keywords that are forbidden inside allOf, anyOf, oneOf and not, which may only restrict values.
_NOT_NESTED: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


class SchemaLevel(Enum):
    """Position of a schema; the value completes the message for a missing type."""

    ROOT = "at the root"
    ITEM = "for specified array items"
    FIELD = "for specified object fields"


def validate_structural(schema: Schema, path: FieldPath) -> FieldErrors:
    """Validate that a schema is structural; errors are sorted by text, as upstream."""
    errors = _invariants(schema, SchemaLevel.ROOT, path)
    errors += _undeclared(schema, schema, path, path)
    return sorted(errors, key=str)


def _invariants(schema: Schema, level: SchemaLevel, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        errors.append(required(path.child("items"), "must be specified"))
    if isinstance(items, dict):
        errors += _invariants(items, SchemaLevel.ITEM, path.child("items"))
    for name, inner in (schema.get("properties") or {}).items():
        errors += _invariants(inner, SchemaLevel.FIELD, path.child("properties").key(name))
    if additional is not None and level is SchemaLevel.ROOT:
        errors.append(forbidden(path.child("additionalProperties"), "must not be used at the root"))
    if isinstance(additional, dict):
        errors += _invariants(additional, SchemaLevel.FIELD, path.child("additionalProperties"))
    errors += _contradictions(schema, path)
    errors += _limits(schema, path, skip_any=_is_int_or_string(schema), skip_all=_is_combined_int_or_string(schema))
    return errors + _type_problems(schema, level, path) + _metadata_problems(schema, level, path)


def _contradictions(schema: Schema, path: FieldPath) -> FieldErrors:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    return [
        invalid(path.child(extension), True, "must be false if x-kubernetes-int-or-string is true")
        for extension in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
        if schema.get(extension)
    ]


def _type_problems(schema: Schema, level: SchemaLevel, path: FieldPath) -> FieldErrors:
    kind, embedded = schema.get("type") or "", bool(schema.get("x-kubernetes-embedded-resource"))
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    errors: FieldErrors = []
    at = path.child("type")
    if embedded and kind != "object":
        errors.append(invalid(at, kind, _BECAUSE_EMBEDDED) if kind else required(at, _BECAUSE_EMBEDDED))
    elif not kind and not free:
        errors.append(required(at, f"must not be empty {level.value}"))
    if embedded and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(path.child("additionalProperties"), detail))
    if level is SchemaLevel.ROOT and kind not in ("", "object"):
        errors.append(invalid(at, kind, "must be object at the root"))
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(path.child("properties"), detail))
    return errors


def _metadata_problems(schema: Schema, level: SchemaLevel, path: FieldPath) -> FieldErrors:
    properties = schema.get("properties") or {}
    holds_metadata = level is SchemaLevel.ROOT or bool(schema.get("x-kubernetes-embedded-resource"))
    errors: FieldErrors = []
    for name in ("kind", "apiVersion"):
        if holds_metadata and name in properties and properties[name].get("type") != "string":
            at = path.child("properties").key(name).child("type")
            errors.append(invalid(at, properties[name].get("type", ""), "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return errors
    at = path.child("properties").key("metadata")
    if holds_metadata and metadata.get("type") != "object":
        errors.append(invalid(at.child("type"), metadata.get("type", ""), "must be object"))
    if level is SchemaLevel.ROOT and not _limits_names_only(metadata):
        errors.append(forbidden(at, _NO_NAMES_BUT))
    return errors


def _limits_names_only(metadata: Schema) -> bool:
    fields = (metadata.get("properties") or {}).keys()
    return not (metadata.keys() - {"type", "properties", "default"}) and fields <= {"name", "generateName"}


def _limits(schema: Schema, path: FieldPath, *, skip_any: bool = False, skip_all: bool = False) -> FieldErrors:
    """Validate allOf, anyOf, oneOf, not and the pattern."""
    errors: FieldErrors = []
    if not skip_any:
        errors += _each_nested(schema, "anyOf", path)
    for index, inner in enumerate(schema.get("allOf") or ()):
        at = path.child("allOf").index(index)
        errors += _nested(inner, at, skip_any=skip_all and index == 0)
    errors += _each_nested(schema, "oneOf", path)
    if isinstance(schema.get("not"), dict):
        errors += _nested(schema["not"], path.child("not"))
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except RegexError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(path.child("pattern"), pattern, detail))
    return errors


def _each_nested(schema: Schema, keyword: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for index, inner in enumerate(schema.get(keyword) or ()):
        errors += _nested(inner, path.child(keyword).index(index))
    return errors


def _nested(schema: Schema, path: FieldPath, *, skip_any: bool = False) -> FieldErrors:
    errors = _limits(schema, path, skip_any=skip_any)
    if isinstance(schema.get("items"), dict):
        errors += _nested(schema["items"], path.child("items"))
    properties = schema.get("properties") or {}
    for name, inner in properties.items():
        errors += _nested(inner, path.child("properties").key(name))
    for keyword, detail in _NOT_NESTED:
        value: Any = schema.get(keyword)
        if value or (keyword == "additionalProperties" and value is not None):
            errors.append(forbidden(path.child(keyword), detail))
    if "metadata" in properties:
        at = path.child("properties").key("metadata")
        errors.append(forbidden(at, "must not be specified in a nested context"))
    return errors


def _is_int_or_string(schema: Schema) -> bool:
    return list(schema.get("anyOf") or ()) == _INT_OR_STRING


def _is_combined_int_or_string(schema: Schema) -> bool:
    every: list[Schema] = schema.get("allOf") or []
    return bool(every) and list(every[0].get("anyOf") or ()) == _INT_OR_STRING


def _undeclared(limits: Schema, declared: Any, path: FieldPath, at: FieldPath) -> FieldErrors:
    """Validate that fields which the root's combinations restrict are declared."""
    errors: FieldErrors = []
    nested = [(limits["not"], at.child("not"))] if isinstance(limits.get("not"), dict) else []
    for keyword in ("allOf", "anyOf", "oneOf"):
        nested += [(one, at.child(keyword).index(index)) for index, one in enumerate(limits.get(keyword) or ())]
    for one, place in nested:
        errors += _undeclared_inside(one, declared, path, place)
    return errors


def _undeclared_inside(limits: Schema, declared: Any, path: FieldPath, at: FieldPath) -> FieldErrors:
    if not isinstance(declared, dict):
        return [required(path, f"because it is defined in {at}")]
    errors = _undeclared(limits, declared, path, at)
    if isinstance(limits.get("items"), dict):
        errors += _undeclared_inside(limits["items"], declared.get("items"), path.child("items"), at.child("items"))
    known = declared.get("properties") or {}
    for name, inner in (limits.get("properties") or {}).items():
        place, said = path.child("properties").key(name), at.child("properties").key(name)
        errors += _undeclared_inside(inner, known.get(name), place, said)
    return errors
