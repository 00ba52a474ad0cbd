"""Validation of a schema's defaults against the schema itself."""

from __future__ import annotations

from copy import deepcopy

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.structural.embedded import validate_embedded
from kubeloop.api.structural.model import META_FIELDS, Structural
from kubeloop.api.structural.pruning import prune_value
from kubeloop.api.structural.validation import SchemaValidator


def validate_defaults(schema: Structural, path: FieldPath, inside_metadata: bool = False) -> FieldErrors:
    """Validate the defaults of a schema and of all schemas below it."""
    errors: FieldErrors = []
    if schema.default is not None:
        errors += _problems(schema, path.child("default"), inside_metadata)
    if schema.items is not None:
        errors += validate_defaults(schema.items, path.child("items"), inside_metadata)
    for name, inner in schema.properties.items():
        is_metadata = inside_metadata or (schema.embedded and name in META_FIELDS)
        errors += validate_defaults(inner, path.child("properties").key(name), is_metadata)
    return errors


def _problems(schema: Structural, path: FieldPath, inside_metadata: bool) -> FieldErrors:
    errors: FieldErrors = []
    if not inside_metadata:
        pruned = deepcopy(schema.default)
        if prune_value(pruned, schema):
            errors.append(invalid(path, schema.default, "must not have unknown fields"))
    found = validate_embedded(schema.default, schema, path) if not inside_metadata else []
    return errors + (found or SchemaValidator(schema.source).problems(schema.default, path))
