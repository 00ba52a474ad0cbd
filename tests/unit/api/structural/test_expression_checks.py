# SPDX-License-Identifier: Apache-2.0
"""Tests of rejected CEL rules in schemas."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.structural.cel.declarations import Declarations, escape_name
from kubeloop.api.structural.schema_checks.structural_schema import validate_schema

STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def schema_errors(schema: dict[str, Any]) -> list[str]:
    found = validate_schema({"type": "object", "properties": {"spec": schema}}, FieldPath("schema"), False)
    return [str(error).removeprefix("schema.properties[spec]") for error in found]


def with_rules(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    given = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": given}


def of(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_valid_rules_are_accepted() -> None:
    rules = [
        "self.a > 0 && self.s.startsWith('x') && self.flag",
        "has(self.l) && self.l.all(x, x.name == 'y') && 'k' in self.m && self.m['k'] == 1",
        "type(self.either) == int ? self.either < 5 : self.either == '5%'",
        "self.when < timestamp('2030-01-01T00:00:00Z') && self.day.getFullYear() > 1 && self.span < duration('1h')",
        "self.raw == b'x' && self.real > 1.5 && self.with__dash__dash == '' && self.__if__ == '' && self.if == ''",
        "oldSelf.a <= self.a",
    ]
    schema = of(
        a=INTEGER, s={**STRING, "maxLength": 5}, flag={"type": "boolean"},
        l={"type": "array", "maxItems": 3, "items": of(name={**STRING, "maxLength": 5})},
        m={"type": "object", "maxProperties": 3, "additionalProperties": INTEGER},
        either={"x-kubernetes-int-or-string": True}, when={**STRING, "format": "date-time"},
        day={**STRING, "format": "date"}, span={**STRING, "format": "duration"},
        raw={**STRING, "format": "byte"}, real={"type": "number"}, **{"with-dash": STRING, "if": STRING},
    )  # fmt: skip
    assert schema_errors(with_rules(schema, *rules)) == []


@pytest.mark.parametrize(
    ("rule", "where", "what"),
    [
        ({"rule": "self.b == 1"}, "rule", "compilation failed: ERROR: <input>:1:5: undefined field 'b'"),
        ({"rule": "self.a"}, "rule", "cel expression must evaluate to a bool"),
        ({"rule": "int('x') == self.a"}, "rule", "program instantiation failed: type conversion error"),
        (
            {"rule": "true", "messageExpression": "1"},
            "messageExpression",
            "messageExpression must evaluate to a string",
        ),
        (
            {"rule": "true", "messageExpression": "x"},
            "messageExpression",
            "messageExpression compilation failed: ERROR",
        ),
        ({"rule": "self.free.x == 1"}, "rule", "undefined field 'x'"),
    ],
)
def test_invalid_rule_is_rejected_with_its_error(rule: dict[str, Any], where: str, what: str) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    (problem,) = schema_errors(with_rules(of(a=INTEGER, free=free), rule))
    assert problem.startswith(f'.x-kubernetes-validations[0].{where}: Invalid value: {{"Rule":')
    assert what in problem


def test_root_has_names_and_no_other_metadata() -> None:
    root = with_rules(
        {"type": "object"}, "self.metadata.name + self.metadata.generateName == self.kind + self.apiVersion"
    )
    assert validate_schema(root, FieldPath("schema"), False) == []
    root = with_rules({"type": "object"}, "has(self.metadata.labels)")
    assert "undefined field 'labels'" in str(validate_schema(root, FieldPath("schema"), False)[0])


class TestOldSelf:
    def test_old_self_is_correlated_along_map_lists(self) -> None:
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "maxItems": 5}
        item = with_rules({**of(k=STRING, v=INTEGER), "required": ["k"]}, "self.v >= oldSelf.v")
        assert schema_errors(of(l={"type": "array", "items": item, **keys})) == []

    def test_old_self_is_not_correlated_in_other_lists(self) -> None:
        items = with_rules(INTEGER, "self >= oldSelf")
        detail = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            "schema.properties[spec].properties[l]"
        )
        assert schema_errors(of(l={"type": "array", "maxItems": 5, "items": items})) == [
            f'.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self >= oldSelf": {detail}'
        ]

    def test_optional_old_self_is_accepted(self) -> None:
        rule = {"rule": "!oldSelf.hasValue() || oldSelf.value() == self", "optionalOldSelf": True}
        assert schema_errors(with_rules(INTEGER, rule)) == []
        (problem,) = schema_errors(with_rules(INTEGER, {"rule": "true", "optionalOldSelf": True}))
        assert problem.endswith(".optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule")


class TestCosts:
    def test_rule_exceeding_the_cost_limit_is_rejected_with_a_hint(self) -> None:
        found = schema_errors(of(l={"type": "array", "items": with_rules(STRING, "self.contains('a')")}))
        at = ".properties[l].items.x-kubernetes-validations[0].rule: Forbidden: "
        total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        assert found == [
            f"{at}estimated rule cost exceeds budget by factor of more than 100x {HINT}",
            f"{at}contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            f"schema: Forbidden: {total} exceeds budget by factor of more than 100x {HINT}",
        ]

    def test_limits_reduce_the_cost(self) -> None:
        items = with_rules({**STRING, "maxLength": 100}, "self.contains('a')")
        assert schema_errors(of(l={"type": "array", "maxItems": 100, "items": items})) == []

    def test_cost_factor_is_reported(self) -> None:
        items = with_rules({**STRING, "maxLength": 1000}, "self.contains('a')")
        (problem,) = schema_errors(of(l={"type": "array", "maxItems": 30_000, "items": items}))
        assert "estimated rule cost exceeds budget by factor of 1.203000x" in problem

    def test_costs_of_all_rules_are_added(self) -> None:
        affordable = with_rules({**STRING, "maxLength": 100_000}, *["self.matches('aaaaaaaa')"] * 150)
        found = schema_errors({"type": "array", "maxItems": 100, "items": affordable})
        assert len(found) == 5
        assert found[-1].startswith("schema: Forbidden: x-kubernetes-validations estimated rule cost total")


def test_only_valid_schemas_are_compiled() -> None:
    wrong = with_rules({"type": "object", "x-kubernetes-map-type": "odd"}, "self.a")
    found = schema_errors(of(wrong=wrong, other=with_rules(INTEGER, "self")))
    assert any("x-kubernetes-map-type" in problem for problem in found)
    assert any("properties[other].x-kubernetes-validations[0].rule" in problem for problem in found)
    assert not any("properties[wrong].x-kubernetes-validations" in problem for problem in found)


def test_total_rule_length_is_limited() -> None:
    found = schema_errors(with_rules(INTEGER, *["self > 0 || " * 1000 + "true"] * 20))
    assert len(found) == 1
    assert "must not have more than 200000 characters" in found[0]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain", "plain"),
        ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("1st", None),
        ("häh", None),
        ("", None),
        ("a b", None),
    ],
)
def test_names_are_escaped(name: str, written: str | None) -> None:
    assert escape_name(name) == written


def test_sizes_follow_the_limits_of_a_schema() -> None:
    root = Declarations(of(s={**STRING, "maxLength": 5}, l={"type": "array", "items": INTEGER})).root
    assert root is not None
    assert root.size_at(("self", "s"), root.type) == (0, 20)
    assert root.size_at(("self", "l"), root.type) == (0, (3 * 1024 * 1024 - 2) // 2)
    assert root.size_at(("self", "nothing"), root.type) is None
