# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a schema's rules on custom resources, within a cost budget."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kubeloop.api.cel.values import NONE, CelError, Optional, equal
from kubeloop.api.meta.field_path import (
    MAX_ERRORS,
    OMITTED,
    FieldError,
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    required,
)
from kubeloop.api.structural.cel.compiled_rules import RuleNode, ValidationRule
from kubeloop.api.structural.cel.values import convert_value

BUDGET: Final = 10_000_000  # upstream's, for all rules on one object
_LONGEST_MESSAGE: Final = 5 * 1024
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_COST_LIMIT: Final = "operation cancelled: actual cost limit exceeded"


class _Enough(Exception):
    """Raised to stop the evaluation of further rules."""


class _NoMessage(Exception):
    """Raised if a messageExpression yields no usable message."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """New and old value of a place, or the nearest enclosing pair if the old value is unknown."""

    new: Any
    old: Any
    parent: Correlation | None = None
    is_known: bool = True

    @property
    def is_unchanged(self) -> bool:
        """True if the value, or the nearest correlated value around it, is unchanged."""
        if self.is_known:
            return equal(self.new, self.old)
        return self.parent is not None and self.parent.is_unchanged

    def child(self, new: Any, was: Any, found: bool) -> Correlation:
        """Return the correlation of an inner value, if it is `found` in the old one."""
        if not self.is_known:
            return self
        return Correlation(new, was, self) if found else Correlation(None, None, self, is_known=False)


_NEW: Final = Correlation(None, None, is_known=False)


@dataclass(slots=True)
class RuleResult:
    """Result of rules: errors, and violations that are excused because the value is unchanged (ratcheting)."""

    errors: FieldErrors = field(default_factory=list)
    ratcheted: FieldErrors = field(default_factory=list)


def evaluate_rules(
    rules: RuleNode, new: Mapping[str, Any], old: Mapping[str, Any] | None = None, budget: int = BUDGET
) -> RuleResult:
    """Evaluate the rules on a whole object and the one that it replaces."""
    evaluation = _Evaluation(budget)
    correlation = _NEW if old is None else Correlation(new, old)
    with suppress(_Enough):
        evaluation.judge(rules, None, new, old, correlation)
    return evaluation.verdict


def evaluate_default(rules: RuleNode, default: Any, path: FieldPath, budget: int) -> tuple[FieldErrors, int]:
    """Evaluate the rules on a default of a schema, as an unchanged value and then as a new one.

    Returns the errors, and what is left of the budget: negative if it did not suffice.
    """
    left = budget
    for old in (default, None):
        evaluation = _Evaluation(budget)
        with suppress(_Enough):
            evaluation.judge(rules, path, default, old, _NEW)
        left = min(left, evaluation.budget)
        if evaluation.verdict.errors:
            return evaluation.verdict.errors, left
    return [], left


class _Evaluation:
    def __init__(self, budget: int) -> None:
        self.verdict = RuleResult()
        self.budget = budget

    def judge(self, node: RuleNode, path: FieldPath | None, new: Any, old: Any, correlation: Correlation) -> None:
        if new is None:
            return
        if node.rules:
            _Place(self, node, path, new, old, correlation).judge()
        if isinstance(new, list):
            if node.items is not None:
                self._judge_items(node, path, new, old, correlation)
        elif isinstance(new, dict):
            self._judge_fields(node, path, new, old, correlation)

    def _judge_items(self, node: RuleNode, path: FieldPath | None, new: list[Any], old: Any, near: Correlation) -> None:
        assert node.items is not None
        assert path is not None  # an object's root is no list
        past = _PastItems(node.schema, old)
        excused = _PastItems(node.schema, near.old) if near.is_known else None
        for index, item in enumerate(new):
            if len(self.verdict.errors) >= MAX_ERRORS:
                return
            found, was = excused.of(item) if excused is not None else (False, None)
            self.judge(node.items, path.index(index), item, past.of(item)[1], near.child(item, was, found))

    def _judge_fields(
        self, node: RuleNode, path: FieldPath | None, new: dict[str, Any], old: Any, near: Correlation
    ) -> None:
        past: Mapping[str, Any] = old if isinstance(old, dict) else {}
        excused: Mapping[str, Any] = near.old if near.is_known and isinstance(near.old, dict) else {}
        for name in sorted(new if node.values is not None else node.properties.keys() & new.keys()):
            inner = node.values if node.values is not None else node.properties[name]
            at = _field_path(path, name, is_key=node.values is not None)
            beside = _NEW if path is None and name in ("apiVersion", "kind") else near
            below = beside.child(new[name], excused.get(name), name in excused)
            self.judge(inner, at, new[name], past.get(name), below)

    def pay(self, cost: int) -> bool:
        """Spend cost and return True if the budget suffices."""
        self.budget -= cost
        return self.budget >= 0

    @property
    def is_spent(self) -> bool:
        return self.budget <= 0


class _PastItems:
    """Items of the old list, by key if the list has keys."""

    def __init__(self, schema: Mapping[str, Any], old: Any) -> None:
        self._keys: tuple[str, ...] = ()
        self._items: dict[str, Any] = {}
        if schema.get("x-kubernetes-list-type") == "map" and isinstance(old, list):
            self._keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            self._items = {self._key(item): item for item in old if isinstance(item, dict)}

    def of(self, item: Any) -> tuple[bool, Any]:
        """Return True and the old item with the same keys, or False."""
        if not self._items or not isinstance(item, dict):
            return False, None
        key = self._key(item)
        return key in self._items, self._items.get(key)

    def _key(self, item: dict[str, Any]) -> str:
        return repr([item.get(key) for key in self._keys])


@dataclass(slots=True)
class _Place:
    """Rules of one place, applied to one value."""

    evaluation: _Evaluation
    node: RuleNode
    path: FieldPath | None
    new: Any
    old: Any
    correlation: Correlation

    def judge(self) -> None:
        if self.evaluation.is_spent:
            raise self._enough(_OUT_OF_BUDGET)
        try:
            value = convert_value(self.new, self.node.declared)
            was = convert_value(self.old, self.node.declared) if self.old is not None else None
        except CelError as error:
            self._fail(str(error))
            return
        plain = {"self": value} if self.old is None else {"self": value, "oldSelf": was}
        optional = {"self": value, "oldSelf": NONE if self.old is None else Optional(was)}
        for rule in self.node.rules:
            if rule.error:  # only in a definition that is being validated
                self._fail(f"rule compile error: {rule.error}")
            elif rule.program is not None and not (rule.uses_old and self.old is None and not rule.optional_old):
                self._judge_rule(rule, optional if rule.optional_old else plain)

    def _judge_rule(self, rule: ValidationRule, variables: dict[str, Any]) -> None:
        assert rule.program is not None
        try:
            result, cost = rule.program.evaluate(variables)
        except CelError as error:
            self._pay(error.cost)
            self._failed_evaluation(rule, str(error))
            return
        self._pay(cost)
        if result is not True:
            self._refuse(rule, variables)

    def _pay(self, cost: int) -> None:
        if not self.evaluation.pay(cost):
            raise self._enough(_OUT_OF_BUDGET)

    def _failed_evaluation(self, rule: ValidationRule, error: str) -> None:
        if error.startswith("no such overload"):
            why = "call arguments did not match a supported operator, function or macro signature for rule"
            self._fail(f"'{error}': {why}: {rule.display_text}")
        elif error.startswith(_COST_LIMIT):
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            raise self._enough(f"'{error}': {why}: {rule.display_text}")
        else:
            self._fail(f"{error} evaluating rule: {rule.display_text}")

    def _fail(self, detail: str) -> None:
        self.evaluation.verdict.errors.append(invalid(self.path, self.node.schema.get("type", ""), detail))

    def _enough(self, detail: str) -> _Enough:
        self._fail(detail)
        return _Enough()

    # A failed rule.

    def _refuse(self, rule: ValidationRule, variables: dict[str, Any]) -> None:
        at = _field_path(self.path, rule.field_path) if rule.field_path else self.path
        try:
            detail = self._message(rule, variables)
        except _Enough as enough:
            self._add(rule, invalid(at, self.node.schema.get("type", ""), str(enough)))
            raise
        except _NoMessage:
            detail = rule.message.strip() if rule.message else f"failed rule: {rule.display_text}"
        value = OMITTED if self.node.schema.get("type") in ("object", "array") else self.new
        self._add(rule, _error_of(rule.reason, at, value, detail))

    def _add(self, rule: ValidationRule, error: FieldError) -> None:
        is_excused = not rule.uses_old and self.correlation.is_unchanged
        verdict = self.evaluation.verdict
        (verdict.ratcheted if is_excused else verdict.errors).append(error)

    def _message(self, rule: ValidationRule, variables: dict[str, Any]) -> str:
        if rule.message_program is None:
            raise _NoMessage
        failure = ""
        try:
            text, cost = rule.message_program.evaluate(variables)
        except CelError as error:
            text, cost, failure = "", error.cost, str(error)
        if not self.evaluation.pay(cost):
            raise _Enough(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules "
                "will be run"
            )
        if failure.startswith(_COST_LIMIT):
            why = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            raise _Enough(f'{why}: "{rule.message_text}"')
        text = text.strip()
        if not text or len(text.encode()) > _LONGEST_MESSAGE or "\n" in text:
            raise _NoMessage
        return str(text)


def _field_path(path: FieldPath | None, name: str, is_key: bool = False) -> FieldPath:
    if is_key:
        return FieldPath(name, None, True) if path is None else path.key(name)
    return FieldPath(name) if path is None else path.child(name)


def _error_of(reason: str | None, path: FieldPath | None, value: Any, detail: str) -> FieldError:
    if reason == "FieldValueForbidden":
        return forbidden(path, detail)
    if reason == "FieldValueRequired":
        return required(path, detail)
    if reason == "FieldValueDuplicate":
        return duplicate(path, value)
    return invalid(path, value, detail)
