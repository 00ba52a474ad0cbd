# SPDX-License-Identifier: Apache-2.0
"""Tests of CEL rule evaluation: failures, messages, and ratcheting of unchanged values."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.structural.cel.compiled_rules import compiled_rules, nodes_of
from kubeloop.api.structural.cel.rule_evaluation import evaluate_rules

STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}


def of(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def listed(items: dict[str, Any], kind: str = "atomic", *keys: str) -> dict[str, Any]:
    found = {"type": "array", "items": items, "x-kubernetes-list-type": kind}
    return {**found, "x-kubernetes-list-map-keys": list(keys)} if keys else found


def ruled(schema: dict[str, Any], rule: str, **facts: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **facts}]}


def rule_errors(spec: dict[str, Any], new: Any, old: Any = None) -> tuple[list[str], list[str]]:
    """Errors and what is excused, of a spec in an object."""
    rules = compiled_rules(of(spec=spec))
    assert rules is not None
    assert [rule.error for node in nodes_of(rules) for rule in node.rules if rule.error] == []
    verdict = evaluate_rules(rules, {"spec": new}, None if old is None else {"spec": old})
    return [str(error) for error in verdict.errors], [str(error) for error in verdict.ratcheted]


def errors(spec: dict[str, Any], new: Any, old: Any = None) -> list[str]:
    return rule_errors(spec, new, old)[0]


@pytest.mark.parametrize(
    ("schema", "value", "rule"),
    [
        (INTEGER, 3, "self == 3 && type(self) == int"),
        ({"type": "number"}, 3, "self == 3.0 && type(self) == double"),
        ({**STRING, "format": "date-time"}, "2020-01-01T00:00:00Z", "self.getFullYear() == 2020"),
        ({**STRING, "format": "date"}, "2020-02-01", "self == timestamp('2020-02-01T00:00:00Z')"),
        ({**STRING, "format": "duration"}, "1h", "self == duration('60m')"),
        ({**STRING, "format": "duration"}, "2 Days", "self == duration('48h')"),
        ({**STRING, "format": "date-time"}, "2020-01-01 00:00:00", "self.getFullYear() == 2020"),
        ({**STRING, "format": "byte"}, "YWI=", "self == b'ab'"),
        ({"x-kubernetes-int-or-string": True}, "5%", "type(self) == string"),
        ({"x-kubernetes-int-or-string": True}, 5, "type(self) == int && self < 6"),
        (listed(INTEGER, "set"), [1, 2], "self == [2, 1] && self + [2, 3] == [1, 2, 3]"),
        (listed(of(k=STRING, v=INTEGER), "map", "k"), [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
         "self == self.reverse() && self.exists(x, x.k == 'b' && x.v == 2)"),
        (listed(INTEGER), [1, 2], "self != [2, 1] && self[0] == 1"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}, "self['a'] == 1.0 && self.a == 1.0"),
        (of(n={**STRING, "nullable": True}), {"n": None}, "!has(self.n)"),
        (of(**{"a-b": INTEGER, "namespace": INTEGER}), {"a-b": 1, "namespace": 2}, "self.a__dash__b < self.namespace"),
        (of(**{"a-b": INTEGER}), {"a-b": 1}, "self.?a__dash__b.value() == 1"),
        ({**of(kind=STRING), "x-kubernetes-embedded-resource": True}, {"kind": "X", "metadata": {"name": "n"}},
         "self.metadata.name == 'n' && self.kind == 'X'"),
    ],
)  # fmt: skip
def test_values_have_schema_types(schema: dict[str, Any], value: Any, rule: str) -> None:
    assert errors(ruled(schema, rule), value) == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "spec: Invalid value: 1: failed rule: self > 1"),
        ({"message": " must be more "}, "spec: Invalid value: 1: must be more"),
        ({"messageExpression": "'is ' + string(self)"}, "spec: Invalid value: 1: is 1"),
        ({"messageExpression": "' '", "message": "else"}, "spec: Invalid value: 1: else"),
        ({"messageExpression": "'two\\nlines'"}, "spec: Invalid value: 1: failed rule: self > 1"),
        ({"messageExpression": "string(1 / (self - 1))"}, "spec: Invalid value: 1: failed rule: self > 1"),
        ({"reason": "FieldValueForbidden", "message": "no"}, "spec: Forbidden: no"),
        ({"reason": "FieldValueRequired", "message": "yes"}, "spec: Required value: yes"),
        ({"reason": "FieldValueDuplicate"}, "spec: Duplicate value: 1"),
        ({"reason": "FieldValueInvalid"}, "spec: Invalid value: 1: failed rule: self > 1"),
    ],
)
def test_failed_rule_has_its_message(facts: dict[str, Any], expected: str) -> None:
    assert errors(ruled(INTEGER, "self > 1", **facts), 1) == [expected]


def test_rule_may_set_a_field_path() -> None:
    assert errors(ruled(of(a=INTEGER), "self.a > 1", fieldPath=".a"), {"a": 1}) == [
        "spec.a: Invalid value: failed rule: self.a > 1"
    ]
    labels = of(labels={"type": "object", "additionalProperties": STRING})
    assert errors(ruled(labels, "false", fieldPath=".labels['x.y']"), {}) == [
        "spec.labels[x.y]: Invalid value: failed rule: false"
    ]


def test_field_paths_are_reported() -> None:
    item = ruled({**STRING}, "self != 'x'")
    schema = of(l=listed(item), m={"type": "object", "additionalProperties": item})
    assert errors(schema, {"l": ["a", "x"], "m": {"k": "x"}}) == [
        """spec.l[1]: Invalid value: "x": failed rule: self != 'x'""",
        """spec.m[k]: Invalid value: "x": failed rule: self != 'x'""",
    ]


def test_an_evaluation_that_fails_is_an_error() -> None:
    assert errors(ruled(of(m={"type": "object", "additionalProperties": INTEGER}), "self.m.x > 1"), {"m": {}}) == [
        'spec: Invalid value: "object": no such key: x evaluating rule: self.m.x > 1'
    ]
    (error,) = errors(ruled({"x-kubernetes-int-or-string": True}, "self > 1"), "a")
    assert "call arguments did not match a supported operator, function or macro signature for rule: self > 1" in error


class TestTransitions:
    def test_transition_rules_are_skipped_on_create(self) -> None:
        rule = ruled(of(a=ruled(INTEGER, "self >= oldSelf")), "oldSelf.a <= self.a")
        assert errors(rule, {"a": 1}) == []
        assert errors(rule, {"a": 1}, {}) == [
            'spec: Invalid value: "object": no such key: a evaluating rule: oldSelf.a <= self.a'
        ]
        assert len(errors(rule, {"a": 1}, {"a": 2})) == 2

    def test_transition_rules_correlate_along_map_lists(self) -> None:
        schema = listed(ruled(of(k=STRING, v=INTEGER), "self.v >= oldSelf.v"), "map", "k")
        old = [{"k": "a", "v": 5}, {"k": "b", "v": 5}]
        assert errors(schema, [{"k": "b", "v": 6}, {"k": "c", "v": 0}, {"k": "a", "v": 5}], old) == []
        assert errors(schema, [{"k": "b", "v": 4}], old) == ["spec[0]: Invalid value: failed rule: self.v >= oldSelf.v"]

    def test_optional_old_self_is_available_on_create(self) -> None:
        rule = ruled(INTEGER, "oldSelf.hasValue() ? self == oldSelf.value() : self == 0", optionalOldSelf=True)
        assert errors(rule, 0) == []
        assert len(errors(rule, 1)) == 1
        assert errors(rule, 1, 1) == []


class TestUnchangedValues:
    def test_unchanged_values_are_ratcheted(self) -> None:
        schema = of(a=ruled(STRING, "self == 'x'"), b=STRING)
        failed = """spec.a: Invalid value: "y": failed rule: self == 'x'"""
        assert rule_errors(schema, {"a": "y", "b": "new"}, {"a": "y", "b": "old"}) == ([], [failed])
        assert rule_errors(schema, {"a": "y"}, {"a": "z"}) == ([failed], [])
        assert rule_errors(schema, {"a": "y"}) == ([failed], [])

    def test_unchanged_list_items_are_ratcheted(self) -> None:
        schema = of(l=listed(ruled(STRING, "self == 'x'")), b=STRING)
        assert rule_errors(schema, {"l": ["y"], "b": "1"}, {"l": ["y"], "b": "2"})[0] == []
        assert len(rule_errors(schema, {"l": ["y", "x"]}, {"l": ["y"]})[0]) == 1

    def test_transition_rules_are_not_ratcheted(self) -> None:
        schema = ruled(STRING, "self == oldSelf + 'x'")
        assert len(errors(schema, "a", "a")) == 1


class TestBudget:
    def test_rule_exceeding_its_budget_stops_validation(self) -> None:
        schema = {
            **listed(INTEGER),
            "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y || true))"}, {"rule": "false"}],
        }
        (error,) = errors(schema, list(range(2000)))
        assert "'operation cancelled: actual cost limit exceeded': no further validation rules will be run" in error

    def test_total_cost_of_all_rules_is_limited(self) -> None:
        rules = compiled_rules(of(spec={**INTEGER, "x-kubernetes-validations": [{"rule": "self == 1"}] * 10}))
        assert rules is not None
        assert evaluate_rules(rules, {"spec": 1}, budget=20).errors == []
        (error,) = evaluate_rules(rules, {"spec": 1}, budget=19).errors
        assert str(error).startswith(
            'spec: Invalid value: "integer": validation failed due to running out of cost budget'
        )
