# SPDX-License-Identifier: Apache-2.0
"""Validation of a CRD's rules: compilation and estimated cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid
from kubeloop.api.structural.cel.compiled_rules import (
    RULES,
    RuleNode,
    ValidationRule,
    rules_of,
    total_rule_length,
)
from kubeloop.api.structural.model import Schema

RULE_LIMIT: Final = 10_000_000
SCHEMA_LIMIT: Final = 100_000_000
# Ten times the largest definitions in use; upstream, which compiles faster, has no such limit.
MAX_RULE_LENGTH: Final = 200_000
_TOLD: Final = 4  # number of most expensive rules to report
_MOST: Final = 2**64 - 1
_HINT: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


class _ShownRule(msgspec.Struct, rename="pascal"):
    """Validation rule as messages show it."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str | None = None
    field_path: str = ""
    optional_old_self: bool | None = None


@dataclass(slots=True)
class _Checks:
    """Accumulated errors and the total cost of all rules."""

    skipped: tuple[str, ...]
    errors: FieldErrors = field(default_factory=list)
    total: int = 0
    expensive: list[tuple[int, FieldPath]] = field(default_factory=list)

    def observe(self, path: FieldPath, cost: int) -> None:
        self.total = min(self.total + cost, _MOST)
        if cost >= SCHEMA_LIMIT // 100:
            self.expensive = sorted([*self.expensive, (cost, path)], key=lambda one: -one[0])[:_TOLD]


@dataclass(frozen=True, slots=True)
class _Where:
    """Place of a schema: the number of such values, and the ancestor below which old values can't be correlated."""

    path: FieldPath
    count: int | None = 1
    uncorrelatable: FieldPath | None = None

    def below(self, path: FieldPath, schema: Schema, forgets: bool = False) -> _Where:
        factor = _factor(schema)
        count = None if self.count is None or factor is None else min(self.count * factor, _MOST)
        since = self.uncorrelatable if self.uncorrelatable is not None or not forgets else self.path
        return _Where(path, count, since)


def validate_rule_expressions(schema: Schema, path: FieldPath, known: FieldErrors) -> FieldErrors:
    """Validate the rules of a schema, except at and below places with `known` errors."""
    if total_rule_length(schema) > MAX_RULE_LENGTH:
        return [forbidden(path, f"must not have more than {MAX_RULE_LENGTH} characters of {RULES} in all")]
    rules = rules_of(msgspec.json.encode(schema))
    if rules is None:
        return []
    checks = _Checks(tuple(str(error.path) for error in known))
    _check(rules, _Where(path), checks)
    errors = checks.errors
    if checks.total > SCHEMA_LIMIT:
        contributed = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors += [forbidden(at, contributed) for _, at in checks.expensive]
        name = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        errors.append(forbidden(path, _cost_message(name, checks.total, SCHEMA_LIMIT)))
    return errors


def _check(node: RuleNode, where: _Where, checks: _Checks) -> None:
    schema, path = node.schema, where.path
    if node.values is not None:
        _check(node.values, where.below(path.child("additionalProperties"), schema), checks)
    for name, inner in node.properties.items():
        forgets = schema.get("x-kubernetes-map-type") not in (None, "granular", "atomic")
        _check(inner, where.below(path.child("properties").key(name), schema, forgets), checks)
    if node.items is not None:
        forgets = schema.get("x-kubernetes-list-type") != "map"
        _check(node.items, where.below(path.child("items"), schema, forgets), checks)
    if node.rules and not any(told.startswith(str(path)) for told in checks.skipped):
        for index, (rule, given) in enumerate(zip(node.rules, schema[RULES], strict=True)):
            _check_rule(rule, given, path.child(RULES).index(index), (node, where), checks)


def _check_rule(
    rule: ValidationRule, given: Mapping[str, Any], at: FieldPath, place: tuple[RuleNode, _Where], checks: _Checks
) -> None:
    node, where = place
    count = node.max_cardinality if where.count is None else where.count
    _check_cost("estimated rule cost", at.child("rule"), min(rule.cost * count, _MOST), checks)
    if rule.error:
        checks.errors.append(invalid(at.child("rule"), _shown(given), rule.error))
    if rule.message_error:
        checks.errors.append(invalid(at.child("messageExpression"), _shown(given), rule.message_error))
    elif rule.message_program is not None:
        _check_cost("estimated messageExpression cost", at.child("messageExpression"), rule.message_cost, checks)
    if rule.uses_old and where.uncorrelatable is not None:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {where.uncorrelatable}"
        checks.errors.append(invalid(at.child("rule"), rule.text, detail))
    if not rule.uses_old and given.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        checks.errors.append(invalid(at.child("optionalOldSelf"), given["optionalOldSelf"], detail))


def _check_cost(name: str, path: FieldPath, cost: int, checks: _Checks) -> None:
    if cost > RULE_LIMIT:
        checks.errors.append(forbidden(path, _cost_message(name, cost, RULE_LIMIT)))
    checks.observe(path, cost)


def _cost_message(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_HINT}"


def _shown(given: Mapping[str, Any]) -> _ShownRule:
    return _ShownRule(
        given.get("rule") or "",
        given.get("message") or "",
        given.get("messageExpression") or "",
        given.get("reason"),
        given.get("fieldPath") or "",
        given.get("optionalOldSelf"),
    )


def _factor(schema: Schema) -> int | None:
    """Return the number of values below each value; None if it is unbounded."""
    kind = schema.get("type")
    if kind == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    elif kind == "array":
        most = schema.get("maxItems")
    else:
        return 1
    return None if most is None else max(int(most), 0)
