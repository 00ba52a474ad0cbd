# SPDX-License-Identifier: Apache-2.0
"""Rules of custom resources hold for every way in which objects are written."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver.apiextensions.conftest import DEFINITIONS, NAME, THINGS, definition, thing, version

INTEGER = {"type": "integer"}
RULES = "x-kubernetes-validations"


def ruled(**facts: Any) -> dict[str, Any]:
    spec = {
        "type": "object",
        "properties": {"low": INTEGER, "high": INTEGER, "name": {"type": "string", "maxLength": 10}},
        RULES: [
            {"rule": "self.low <= self.high", "messageExpression": "'%d is above %d'.format([self.low, self.high])"},
            {
                "rule": "!has(oldSelf.name) || self.name == oldSelf.name",
                "message": "is immutable",
                "fieldPath": ".name",
            },
        ],
    }
    status = {"type": "object", "properties": {"seen": {**INTEGER, RULES: [{"rule": "self >= oldSelf"}]}}}
    return version(schema={"properties": {"spec": spec, "status": status}}, subresources={"status": {}}, **facts)


def test_created_object_is_validated_by_rules(api, install) -> None:
    install(ruled())
    assert api.post(THINGS, thing("a", spec={"low": 1, "high": 2})).status == 201
    answer = api.post(THINGS, thing("b", spec={"low": 3, "high": 2}))
    assert answer.status == 422
    assert answer.body["message"] == 'Thing.example.org "b" is invalid: spec: Invalid value: 3 is above 2'
    assert answer.body["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "Invalid value: 3 is above 2", "field": "spec"}
    ]


def test_updated_object_is_validated_by_rules_and_transition_rules(api, install) -> None:
    install(ruled())
    api.made(THINGS, thing("a", spec={"low": 1, "high": 2, "name": "n"}))
    answer = api.patch("merge", f"{THINGS}/a", {"spec": {"name": "m"}})
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "spec.name"
    assert "immutable" in answer.body["message"]
    assert api.patch("merge", f"{THINGS}/a", {"spec": {"low": 5}}).status == 422
    assert api.patch("merge", f"{THINGS}/a", {"spec": {"low": 2}}).status == 200


def test_status_is_validated_by_rules(api, install) -> None:
    install(ruled())
    api.made(THINGS, thing("a", spec={"low": 1, "high": 2}))
    assert api.patch("merge", f"{THINGS}/a/status", {"status": {"seen": 5}}).status == 200
    answer = api.patch("merge", f"{THINGS}/a/status", {"status": {"seen": 4}})
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "status.seen"


def test_rules_are_skipped_for_schema_errors(api, install) -> None:
    install(ruled())
    answer = api.post(THINGS, thing("a", spec={"low": "x", "high": 1}))
    assert answer.status == 422
    assert "some validation rules were not checked because the object was invalid" in answer.body["message"]


def test_unchanged_violation_of_a_new_rule_warns(api, install, settle) -> None:
    lenient = version(schema={"properties": {"spec": {"type": "object", "properties": {"low": INTEGER, "x": INTEGER}}}})
    install(lenient)
    api.made(THINGS, thing("a", spec={"low": -1}))
    strict = {"type": "object", "properties": {"low": {**INTEGER, RULES: [{"rule": "self >= 0"}]}, "x": INTEGER}}
    changed = version(schema={"properties": {"spec": strict}})
    assert api.patch("merge", f"{DEFINITIONS}/{NAME}", {"spec": {"versions": [changed]}}).status == 200
    settle()
    kept = api.patch("merge", f"{THINGS}/a", {"spec": {"x": 1}})
    assert kept.status == 200
    assert "spec.low: Invalid value: -1: failed rule: self >= 0" in kept.headers["Warning"]
    assert api.patch("merge", f"{THINGS}/a", {"spec": {"low": -2}}).status == 422


def test_definition_with_an_invalid_rule_is_rejected(api) -> None:
    spec = {"type": "object", RULES: [{"rule": "self.nothing"}]}
    answer = api.post(DEFINITIONS, definition(version(schema={"properties": {"spec": spec}})))
    assert answer.status == 422
    cause = answer.body["details"]["causes"][0]
    assert cause["field"] == f"spec.validation.openAPIV3Schema.properties[spec].{RULES}[0].rule"
    assert "compilation failed: ERROR: <input>:1:5: undefined field 'nothing'" in cause["message"]


def test_names_are_available_at_the_root(api, install) -> None:
    rule = {"rule": "self.metadata.name.startsWith('t') && self.kind == 'Thing'", "message": "wrong name"}
    install(version(schema={"properties": {"spec": {"type": "object"}}, RULES: [rule]}))
    assert api.post(THINGS, thing("t")).status == 201
    answer = api.post(THINGS, thing("x"))
    assert answer.status == 422
    assert answer.body["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "Invalid value: wrong name", "field": "<nil>"}
    ]
