# SPDX-License-Identifier: Apache-2.0
"""Rules of admission policies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_1035_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
MATCH = {"resourceRules": [RULE]}
POLICY = {"spec": {"matchConstraints": MATCH, "validations": [{"expression": "true"}]}}
MUTATION = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
MUTATING = {"spec": {"matchConstraints": MATCH, "mutations": [MUTATION], "reinvocationPolicy": "Never"}}
BINDING = {"spec": {"policyName": "p", "validationActions": ["Deny"]}}
MUTATING_BINDING = {"spec": {"policyName": "p"}}
GROUP = ".admissionregistration.k8s.io"
PARAM_REF = {"name": "n", "parameterNotFoundAction": "Deny"}


def validation(**fields: Any) -> dict[str, Any]:
    return {"spec.validations": [{"expression": "true", **fields}]}


def annotations(*annotations: dict[str, str]) -> dict[str, Any]:
    return {"spec.auditAnnotations": list(annotations)}


def mutation(**fields: Any) -> dict[str, Any]:
    return {"spec.mutations": [{**MUTATION, **fields}]}


def match(**fields: Any) -> dict[str, Any]:
    return {"spec.matchConstraints": {**MATCH, **fields}}


CASES = [
    *creates("validatingadmissionpolicies" + GROUP, POLICY, [
        ({"spec.failurePolicy": "F"},
            ['spec.failurePolicy: Unsupported value: "F": supported values: "Fail", "Ignore"']),
        ({"spec.paramKind": {"apiVersion": "", "kind": "K"}}, ["spec.paramKind.apiVersion: Required value"]),
        ({"spec.paramKind": {"apiVersion": "a/b/c", "kind": "K"}},
            ['spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
        ({"spec.paramKind": {"apiVersion": "G_/v1", "kind": "K"}},
            ['spec.paramKind.apiVersion: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
        ({"spec.paramKind": {"apiVersion": "g/", "kind": "K"}},
            ['spec.paramKind.apiVersion: Invalid value: "g/": version must be specified']),
        ({"spec.paramKind": {"apiVersion": "g/V_", "kind": "K"}},
            ['spec.paramKind.apiVersion: Invalid value: "V_": ' + DNS_1035_LABEL]),
        ({"spec.paramKind": {"apiVersion": "v1", "kind": ""}}, ["spec.paramKind.kind: Required value"]),
        ({"spec.paramKind": {"apiVersion": "v1", "kind": "K_"}},
            ['spec.paramKind.kind: Invalid value: "K_": may have mixed case, but should '
             "otherwise match: " + DNS_1035_LABEL]),
        ({"spec.matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        (match(resourceRules=[]), ["spec.matchConstraints.resourceRules: Required value"]),
        (match(matchPolicy="M"),
            ['spec.matchConstraints.matchPolicy: Unsupported value: "M": supported values: "Equivalent", "Exact"']),
        (match(namespaceSelector={"matchLabels": {"a b": "c"}}),
            ['spec.matchConstraints.namespaceSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (match(excludeResourceRules=[{**RULE, "resourceNames": ["a/b"]}]),
            ['spec.matchConstraints.excludeResourceRules[0].resourceNames[0]: Invalid value: "a/b": may not '
             "contain '/'"]),
        (match(resourceRules=[{**RULE, "resourceNames": ["n", "n"]}]),
            ['spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "n"']),
        (match(resourceRules=[{**RULE, "operations": []}]),
            ["spec.matchConstraints.resourceRules[0].operations: Required value"]),
        ({"spec.matchConditions": [{"name": "n", "expression": ""}]},
            ["spec.matchConditions[0].expression: Required value"]),
        ({"spec.variables": [{"name": " ", "expression": "1"}]},
            ["spec.variables[0].name: Required value: name is not specified"]),
        ({"spec.variables": [{"name": "a-b", "expression": "1"}]},
            ['spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier']),
        ({"spec.variables": [{"name": "a", "expression": ""}]},
            ["spec.variables[0].expression: Required value: expression is not specified"]),
        ({"spec.variables": [{"name": "a", "expression": "x +"}]},
            ['spec.variables[0].expression: Invalid value: "x +": compilation failed: ERROR: <input>:1:4: '
             "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', "
             "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | x +\n | ...^"]),
        ({"spec.validations": []},
            ["spec.validations: Required value: validations or auditAnnotations must contain at least one item",
             ("spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one "
             "item")]),
        (validation(expression=""), ["spec.validations[0].expression: Required value: expression is not specified"]),
        (validation(expression="x +"),
            ['spec.validations[0].expression: Invalid value: "x +": compilation failed: ERROR: <input>:1:4: '
             "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', "
             "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | x +\n | ...^"]),
        (validation(messageExpression=" "),
            ['spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified']),
        (validation(messageExpression="1"),
            ['spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int']),
        (validation(message=" "),
            ['spec.validations[0].message: Invalid value: " ": must be non-empty if specified']),
        (validation(message="a\nb"),
            ['spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks']),
        (validation(reason="R"),
            ['spec.validations[0].reason: Unsupported value: "R": supported values: "Forbidden", "Invalid", '
             '"RequestEntityTooLarge"']),
        (annotations(*[{"key": f"k{number}", "valueExpression": "'a'"} for number in range(21)]),
            ["spec.auditAnnotations: Invalid value: "
             "[{\"Key\":\"k0\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k1\",\"ValueExpression\":\"'a'\"},{\"Key"
             "\":\"k2\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k3\",\"ValueExpression\":\"'a'\"},{\"Key\":"
             "\"k4\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k5\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k"
             "6\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k7\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k8\",\"Va"
             "lueExpression\":\"'a'\"},{\"Key\":\"k9\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k10\",\"ValueEx"
             "pression\":\"'a'\"},{\"Key\":\"k11\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k12\",\"ValueExpres"
             "sion\":\"'a'\"},{\"Key\":\"k13\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k14\",\"ValueExpression"
             "\":\"'a'\"},{\"Key\":\"k15\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k16\",\"ValueExpression\":\"'"
             "a'\"},{\"Key\":\"k17\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k18\",\"ValueExpression\":\"'a'\"}"
             ",{\"Key\":\"k19\",\"ValueExpression\":\"'a'\"},{\"Key\":\"k20\",\"ValueExpression\":\"'a'\"}]: "
             "must not have more than 20 auditAnnotations"]),
        (annotations({"key": "k", "valueExpression": "'a'"}, {"key": "k", "valueExpression": "'a'"}),
            ['spec.auditAnnotations[1].key: Duplicate value: "k"']),
        (annotations({"key": "a b", "valueExpression": "'a'"}),
            ['spec.auditAnnotations[0].key: Invalid value: "x/a b": ' + QUALIFIED_NAME]),
        (annotations({"key": "k", "valueExpression": ""}),
            ["spec.auditAnnotations[0].valueExpression: Required value: valueExpression is not specified"]),
        (annotations({"key": "k", "valueExpression": "'" + "a" * 5120 + "'"}),
            ["spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length"]),
        (annotations({"key": "k", "valueExpression": "1"}),
            ['spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string '
             "null_type] but got int"]),
    ]),
    *updates("validatingadmissionpolicies" + GROUP, POLICY, [
        ({}, {"spec.failurePolicy": "F"},
            ['spec.failurePolicy: Unsupported value: "F": supported values: "Fail", "Ignore"']),
        ({}, {"spec.matchConditions": [{"name": "n", "expression": ""}]},
            ["spec.matchConditions[0].expression: Required value"]),
    ]),
    *updates("validatingadmissionpolicies" + GROUP, POLICY, [
        ({}, {"status.typeChecking": {"expressionWarnings": [{"fieldRef": "f", "warning": ""}]}},
            ["status.typeChecking.expressionWarnings[0].warning: Required value"]),
        ({}, {"status.typeChecking": {"expressionWarnings": [{"fieldRef": " ", "warning": "w"}]}},
            ["status.typeChecking.expressionWarnings[0].fieldRef: Required value"]),
        ({}, {"status.conditions": [{"type": "T", "status": "S", "reason": "R"}]},
            ['status.conditions[0].status: Unsupported value: "S": supported values: "False", "True", "Unknown"',
             "status.conditions[0].lastTransitionTime: Required value"]),
    ], "status"),
    *creates("mutatingadmissionpolicies" + GROUP, MUTATING, [
        (match(resourceRules=[{**RULE, "operations": ["DELETE"]}]),
            ['spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: '
             '"*", "CONNECT", "CREATE", "UPDATE"']),
        ({"spec.mutations": []}, ["spec.mutations: Required value: mutations must contain at least one item"]),
        (mutation(patchType=""), ["spec.mutations[0].patchType: Required value"]),
        (mutation(patchType="P"),
            ['spec.mutations[0].patchType: Unsupported value: "P": supported values: "ApplyConfiguration", '
             '"JSONPatch"']),
        (mutation(patchType="JSONPatch"),
            ["spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
             ('spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be '
             "specified when patchType is JSONPatch")]),
        (mutation(applyConfiguration=None),
            ["spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is "
             "ApplyConfiguration"]),
        (mutation(applyConfiguration={"expression": " "}),
            ["spec.mutations[0].applyConfiguration.expression: Required value"]),
        (mutation(applyConfiguration={"expression": "1"}),
            ['spec.mutations[0].applyConfiguration.expression: Invalid value: "1": must evaluate to Object but '
             "got int"]),
        ({"spec.reinvocationPolicy": ""}, ["spec.reinvocationPolicy: Required value"]),
        ({"spec.reinvocationPolicy": "R"},
            ['spec.reinvocationPolicy: Unsupported value: "R": supported values: "IfNeeded", "Never"']),
    ]),
    *creates("validatingadmissionpolicybindings" + GROUP, BINDING, [
        ({"spec.policyName": ""}, ["spec.policyName: Required value"]),
        ({"spec.policyName": "P_"}, ['spec.policyName: Invalid value: "P_": ' + DNS_SUBDOMAIN]),
        ({"spec.paramRef": {**PARAM_REF, "name": "a/b"}},
            ["spec.paramRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({"spec.paramRef": {**PARAM_REF, "name": ""}},
            ["spec.paramRef: Required value: one of name or selector must be specified"]),
        ({"spec.paramRef": {**PARAM_REF, "selector": {}}},
            ["spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
             "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive"]),
        ({"spec.paramRef": {"selector": {"matchLabels": {"a b": "c"}}, "parameterNotFoundAction": "Deny"}},
            ['spec.paramRef.selector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.paramRef": {**PARAM_REF, "parameterNotFoundAction": "P"}},
            ['spec.paramRef.parameterNotFoundAction: Unsupported value: "P": supported values: "Deny", "Allow"']),
        ({"spec.matchResources": {"matchPolicy": "M"}},
            ['spec.matchResources.matchPolicy: Unsupported value: "M": supported values: "Equivalent", "Exact"']),
        ({"spec.validationActions": []}, ["spec.validationActions: Required value"]),
        ({"spec.validationActions": ["A"]},
            ['spec.validationActions[0]: Unsupported value: "A": supported values: "Audit", "Deny", "Warn"']),
        ({"spec.validationActions": ["Audit", "Audit"]}, ['spec.validationActions[1]: Duplicate value: "Audit"']),
        ({"spec.validationActions": ["Deny", "Warn"]},
            ['spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn '
             "(repeating the same validation failure information in the API response and headers serves no "
             "purpose)"]),
    ]),
    *creates("mutatingadmissionpolicybindings" + GROUP, MUTATING_BINDING, [
        ({"spec.policyName": ""}, ["spec.policyName: Required value"]),
        ({"spec.matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
            ['spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
             '"CONNECT", "CREATE", "UPDATE"']),
    ]),
    *updates("validatingadmissionpolicybindings" + GROUP, BINDING, [
        ({}, {"spec.policyName": "P_"}, ['spec.policyName: Invalid value: "P_": ' + DNS_SUBDOMAIN]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_policies_are_reported(case: Case) -> None:
    assert case.found() == case.errors
