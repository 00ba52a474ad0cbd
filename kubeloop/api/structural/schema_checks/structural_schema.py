# SPDX-License-Identifier: Apache-2.0
"""Validation of a CRD's schema: the order of the checks, and which checks suppress later ones."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid
from kubeloop.api.structural.depth import MAX_SCHEMA_DEPTH, exceeds_depth
from kubeloop.api.structural.embedded import validate_embedded
from kubeloop.api.structural.model import META_FIELDS, Schema, Structural
from kubeloop.api.structural.pruning import prune_value
from kubeloop.api.structural.schema_checks.keyword_checks import UNSUPPORTED, validate_keywords
from kubeloop.api.structural.schema_checks.shape_checks import validate_structural
from kubeloop.api.structural.validation import SchemaValidator

if TYPE_CHECKING:
    from kubeloop.api.structural.cel.compiled_rules import RuleNode

# Upstream's cost budget for the rules on all defaults of a schema.
_RULE_BUDGET: Final = 10_000_000
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
    if not _has_rules(schema):
        return []
    from kubeloop.api.structural.cel.expression_checks import validate_rule_expressions  # slow to load

    return validate_rule_expressions(schema, path, known)


def _structural_problems(schema: Schema, path: FieldPath) -> FieldErrors:
    found = validate_structural(schema, path)
    if found:
        return found
    structural = Structural(schema, root=True)
    return _DefaultChecks().validate(structural, path, _rules_of(schema) if structural.has_defaults else None)


def _rules_of(schema: Schema) -> RuleNode | None:
    """Return the compiled rules of a schema; None if there are none, or too many, which is reported elsewhere."""
    if not _has_rules(schema):
        return None
    from kubeloop.api.structural.cel.compiled_rules import rules_of, total_rule_length  # slow to load
    from kubeloop.api.structural.cel.expression_checks import MAX_RULE_LENGTH

    return rules_of(msgspec.json.encode(schema)) if total_rule_length(schema) <= MAX_RULE_LENGTH else None


def _has_rules(schema: Schema) -> bool:
    return any(node.get("x-kubernetes-validations") for node in _nodes(schema))


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


class _DefaultChecks:
    """Validation of a schema's defaults, with one budget for the rules on all of them."""

    def __init__(self) -> None:
        self._budget = _RULE_BUDGET

    def validate(
        self, schema: Structural, path: FieldPath, rules: RuleNode | None, inside_metadata: bool = False
    ) -> FieldErrors:
        """Validate the defaults of a schema and of all schemas below it; `rules` are those of this place."""
        errors: FieldErrors = []
        if schema.default is not None:
            errors += self._default_errors(schema, path.child("default"), rules, inside_metadata)
        if schema.items is not None and self._budget >= 0:
            below = None if rules is None else rules.items
            errors += self.validate(schema.items, path.child("items"), below, inside_metadata)
        for name, inner in schema.properties.items():
            if self._budget < 0:
                break
            is_metadata = inside_metadata or (schema.embedded and name in META_FIELDS)
            below = None if rules is None else rules.properties.get(name)
            errors += self.validate(inner, path.child("properties").key(name), below, is_metadata)
        return errors

    def _default_errors(
        self, schema: Structural, path: FieldPath, rules: RuleNode | None, inside_metadata: bool
    ) -> FieldErrors:
        errors: FieldErrors = []
        if not inside_metadata:
            pruned = deepcopy(schema.default)
            if prune_value(pruned, schema):
                errors.append(invalid(path, schema.default, "must not have unknown fields"))
        found = validate_embedded(schema.default, schema, path) if not inside_metadata else []
        found = found or SchemaValidator(schema.source).validate(schema.default, path)
        if not found and rules is not None:
            from kubeloop.api.structural.cel.rule_evaluation import evaluate_default  # slow to load

            found, self._budget = evaluate_default(rules, schema.default, path, self._budget)
        return errors + found
