# SPDX-License-Identifier: Apache-2.0
"""Validation of a CRD's schema: the order of the checks, and which checks suppress later ones."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid
from kubeloop.api.structural.depth import MAX_SCHEMA_DEPTH, exceeds_depth
from kubeloop.api.structural.embedded import validate_embedded
from kubeloop.api.structural.model import META_FIELDS, Schema, Structural
from kubeloop.api.structural.pruning import prune_value
from kubeloop.api.structural.schema_checks.keyword_checks import UNSUPPORTED, validate_keywords
from kubeloop.api.structural.schema_checks.shape_checks import validate_structural
from kubeloop.api.structural.validation import SchemaValidator

# Keywords that the root may have if there is a status subresource.
_AT_ROOT: Final = (
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "enum",
    "items",
    "properties",
    "externalDocs",
    "example",
)
_ALLOWED: Final = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
    "XPreserveUnknownFields XValidations]"
)


def validate_schema(schema: Schema, path: FieldPath, has_status: bool) -> FieldErrors:
    """Validate the schema of one version."""
    if exceeds_depth(schema, MAX_SCHEMA_DEPTH):
        return [invalid(path, "", f"must not be nested more than {MAX_SCHEMA_DEPTH} times")]
    errors: FieldErrors = []
    if has_status:
        errors += _root_problems(schema, path)
    if schema.get("nullable"):
        errors.append(forbidden(FieldPath(f"{path}.nullable"), "nullable cannot be true at the root"))
    is_structural = False
    if not any(_has_unsupported(node) for node in _nodes(schema)):
        found = _structural_problems(schema, path)
        errors += found
        is_structural = not found
    found = validate_keywords(schema, path)
    return errors + found + (_expression_problems(schema, path, found) if is_structural else [])


def _expression_problems(schema: Schema, path: FieldPath, known: FieldErrors) -> FieldErrors:
    if not any(node.get("x-kubernetes-validations") for node in _nodes(schema)):
        return []
    from kubeloop.api.structural.cel.expression_checks import validate_rule_expressions  # slow to load

    return validate_rule_expressions(schema, path, known)


def _structural_problems(schema: Schema, path: FieldPath) -> FieldErrors:
    found = validate_structural(schema, path)
    return found or validate_defaults(Structural(schema, root=True), path)


def _root_problems(schema: Schema, path: FieldPath) -> FieldErrors:
    allowed = {*_AT_ROOT, "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"} - {"enum"}
    if schema.get("type", "object") != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(FieldPath(f"{path}.type"), schema["type"], detail)]
    if schema.keys() - allowed:
        detail = f"only {_ALLOWED} fields are allowed at the root of the schema if the status subresource is enabled"
        return [invalid(path, schema, detail)]
    return []


def _has_unsupported(node: Schema) -> bool:
    return any(node.get(keyword) for keyword in UNSUPPORTED) or isinstance(node.get("items"), list)


def _nodes(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and the schemas below it that define its structure."""
    yield schema
    below: list[Any] = [
        *(schema.get("properties") or {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    for node in below:
        if isinstance(node, dict):
            yield from _nodes(node)


def validate_defaults(schema: Structural, path: FieldPath, inside_metadata: bool = False) -> FieldErrors:
    """Validate the defaults of a schema and of all schemas below it."""
    errors: FieldErrors = []
    if schema.default is not None:
        errors += _default_errors(schema, path.child("default"), inside_metadata)
    if schema.items is not None:
        errors += validate_defaults(schema.items, path.child("items"), inside_metadata)
    for name, inner in schema.properties.items():
        is_metadata = inside_metadata or (schema.embedded and name in META_FIELDS)
        errors += validate_defaults(inner, path.child("properties").key(name), is_metadata)
    return errors


def _default_errors(schema: Structural, path: FieldPath, inside_metadata: bool) -> FieldErrors:
    errors: FieldErrors = []
    if not inside_metadata:
        pruned = deepcopy(schema.default)
        if prune_value(pruned, schema):
            errors.append(invalid(path, schema.default, "must not have unknown fields"))
    found = validate_embedded(schema.default, schema, path) if not inside_metadata else []
    return errors + (found or SchemaValidator(schema.source).validate(schema.default, path))
