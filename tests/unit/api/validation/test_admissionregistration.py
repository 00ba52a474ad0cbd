# SPDX-License-Identifier: Apache-2.0
"""Validation tests of webhook configurations, admission policies and bindings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = f"validatingwebhookconfigurations.{GROUP}", f"mutatingwebhookconfigurations.{GROUP}"
VALIDATING_POLICIES, MUTATING_POLICIES = f"validatingadmissionpolicies.{GROUP}", f"mutatingadmissionpolicies.{GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{GROUP}"
MUTATING_BINDINGS = f"mutatingadmissionpolicybindings.{GROUP}"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK = {
    "name": "hook.example.com",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/x/y"}},
    "rules": [RULE],
    "matchConditions": [{"name": "m", "expression": "true"}],
}
CONFIGURATION = {"webhooks": [HOOK]}
FORM = "; desired format: https://host[/path]"


def test_a_full_configuration_passes() -> None:
    assert create_problems(VALIDATING, CONFIGURATION) == []
    assert create_problems(MUTATING, CONFIGURATION) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("name", "short", 'name: Invalid value: "short": should be a domain with at least three segments separated by '
         'dots'),
        ("sideEffects", None, "sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        ("sideEffects", "Some", 'sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'),
        ("admissionReviewVersions", [], "admissionReviewVersions: Required value: must specify one of v1, v1beta1"),
        ("admissionReviewVersions", ["v7"], 'admissionReviewVersions: Invalid value: ["v7"]: must include at least '
         'one of v1, v1beta1'),
        ("admissionReviewVersions", ["v1", "v1"], 'admissionReviewVersions[1]: Invalid value: "v1": duplicate version'),
        ("failurePolicy", "Maybe", 'failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'),
        ("matchPolicy", "Maybe", 'matchPolicy: Unsupported value: "Maybe": supported values: "Equivalent", "Exact"'),
        ("timeoutSeconds", 31, "timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
        ("clientConfig", {}, "clientConfig: Required value: exactly one of url or service is required"),
        ("clientConfig", {"url": "http://h"}, f"clientConfig.url: Invalid value: \"http\": 'https' is the only "
         f"allowed URL scheme{FORM}"),
        ("clientConfig", {"url": "https:///p"}, f'clientConfig.url: Invalid value: "": host must be specified{FORM}'),
        ("clientConfig", {"url": "https://u:p@h"}, 'clientConfig.url: Invalid value: "u:p": user information is not '
         'permitted in the URL'),
        ("clientConfig", {"url": "https://h?q"}, 'clientConfig.url: Invalid value: "q": query parameters are not '
         'permitted in the URL'),
        ("clientConfig", {"url": "https://h#f"}, 'clientConfig.url: Invalid value: "f": fragments are not permitted '
         'in the URL'),
        ("clientConfig", {"url": ":"}, f'clientConfig.url: Required value: url must be a valid URL: parse ":": '
         f'missing protocol scheme{FORM}'),
        ("clientConfig.service.port", 70000, "clientConfig.service.port: Invalid value: 70000: port is not valid: "
         "must be between 1 and 65535, inclusive"),
        ("clientConfig.service.path", "/a//b", 'clientConfig.service.path: Invalid value: "/a//b": segment[1] may not '
         'be empty'),
        ("clientConfig.service.path", "//", 'clientConfig.service.path: Invalid value: "//": segment[0] may not be '
         'empty'),
        ("matchConditions", [{"name": "m"}], "matchConditions[0].expression: Required value"),
        ("matchConditions", [{"name": "m", "expression": "true"}] * 2, 'matchConditions[1].name: Duplicate value: "m"'),
    ],
)  # fmt: skip
def test_a_webhook_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    manifest = altered(CONFIGURATION, {f"webhooks.0.{path}": value})
    assert create_problems(VALIDATING, manifest) == [f"webhooks[0].{problem}"]


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("operations", ["READ"], 'operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT", '
         '"CREATE", "DELETE", "UPDATE"'),
        ("operations", ["*", "CREATE"], "operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not "
         "specify other operations"),
        ("apiGroups", [], "apiGroups: Required value"),
        ("apiVersions", [""], "apiVersions[0]: Required value"),
        ("resources", ["*/*", "pods"], "resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not "
         "specify other resources"),
        ("resources", ["*", "pods"], "resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify "
         "other resources without subresources"),
        ("resources", ["pods/*", "pods/log"], "resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, "
         "must not specify pods/log"),
        ("resources", ["*/scale", "a/scale"], "resources[1]: Invalid value: \"a/scale\": if '*/scale' is present, "
         "must not specify a/scale"),
        ("scope", "Here", 'scope: Unsupported value: "Here": supported values: "*", "Cluster", "Namespaced"'),
    ],
)  # fmt: skip
def test_a_rule_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    manifest = altered(CONFIGURATION, {f"webhooks.0.rules.0.{path}": value})
    assert create_problems(VALIDATING, manifest) == [f"webhooks[0].rules[0].{problem}"]


def test_webhook_names_are_unique() -> None:
    assert create_problems(MUTATING, {"webhooks": [HOOK, HOOK]}) == [
        'webhooks[1].name: Duplicate value: "hook.example.com"'
    ]


def test_update_keeps_existing_invalid_fields() -> None:
    old = altered(CONFIGURATION, {"webhooks.0.sideEffects": "Some", "webhooks.0.admissionReviewVersions": ["v7"]})
    assert update_problems(VALIDATING, old, altered(old, {"webhooks.0.timeoutSeconds": 3})) == []
    assert len(update_problems(VALIDATING, CONFIGURATION, old)) == 2


POLICY = {
    "spec": {
        "matchConstraints": {"resourceRules": [RULE]},
        "variables": [{"name": "v", "expression": "1"}],
        "validations": [{"expression": "true", "message": "m"}],
    }
}


def test_a_full_policy_passes() -> None:
    assert create_problems(VALIDATING_POLICIES, POLICY) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("failurePolicy", "Maybe", 'failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'),
        ("matchConstraints", None, "matchConstraints: Required value"),
        ("matchConstraints.resourceRules", [], "matchConstraints.resourceRules: Required value"),
        ("paramKind", {"apiVersion": "a/b/c", "kind": "K"}, 'paramKind.apiVersion: Invalid value: "a/b/c": unexpected '
         'GroupVersion string: a/b/c'),
        ("paramKind", {"apiVersion": "v1"}, "paramKind.kind: Required value"),
        ("variables.0.name", "in", 'variables[0].name: Invalid value: "in": must be a valid CEL identifier'),
        ("variables.0.expression", " ", "variables[0].expression: Required value: expression is not specified"),
        ("validations.0.expression", "", "validations[0].expression: Required value: expression is not specified"),
        ("validations.0.message", " ", 'validations[0].message: Invalid value: " ": must be non-empty if specified'),
        ("validations.0.message", "a\nb", 'validations[0].message: Invalid value: "a\\nb": must not contain line '
         'breaks'),
        ("validations.0.messageExpression", " ", 'validations[0].messageExpression: Invalid value: " ": must be '
         'non-empty if specified'),
        ("validations.0.reason", "Mood", 'validations[0].reason: Unsupported value: "Mood": supported values: '
         '"Forbidden", "Invalid", "RequestEntityTooLarge"'),
        ("auditAnnotations", [{"key": "a"}], "auditAnnotations[0].valueExpression: Required value: valueExpression is "
         "not specified"),
        ("auditAnnotations", [{"key": "a", "valueExpression": "'x'"}] * 2, 'auditAnnotations[1].key: Duplicate value: '
         '"a"'),
    ],
)  # fmt: skip
def test_a_policy_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(VALIDATING_POLICIES, altered(POLICY, {f"spec.{path}": value})) == [f"spec.{problem}"]


def test_policy_needs_a_validation_or_audit_annotation() -> None:
    found = create_problems(VALIDATING_POLICIES, altered(POLICY, {"spec.validations": []}))
    detail = "Required value: validations or auditAnnotations must contain at least one item"
    assert found == [f"spec.auditAnnotations: {detail}", f"spec.validations: {detail}"]


def test_type_checking_warnings_have_a_field_path() -> None:
    new = altered(POLICY, {"status": {"typeChecking": {"expressionWarnings": [{}]}}})
    at = "status.typeChecking.expressionWarnings[0]"
    found = update_problems(VALIDATING_POLICIES, POLICY, new, "status")
    assert found == [f"{at}.fieldRef: Required value", f"{at}.warning: Required value"]


MUTATION = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
MUTATING_POLICY = {
    "spec": {
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": [MUTATION],
        "reinvocationPolicy": "Never",
    }
}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("mutations", [], "mutations: Required value: mutations must contain at least one item"),
        ("mutations.0.patchType", "", "mutations[0].patchType: Required value"),
        ("mutations.0.patchType", "Magic", 'mutations[0].patchType: Unsupported value: "Magic": supported values: '
         '"ApplyConfiguration", "JSONPatch"'),
        ("mutations.0.applyConfiguration", None, "mutations[0].applyConfiguration: Required value: must be specified "
         "when patchType is ApplyConfiguration"),
        ("mutations.0.applyConfiguration", {}, "mutations[0].applyConfiguration.expression: Required value"),
        ("mutations.0.jsonPatch", {}, 'mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified '
         'when patchType is ApplyConfiguration'),
        ("reinvocationPolicy", "", "reinvocationPolicy: Required value"),
        ("matchConstraints.resourceRules.0.operations", ["DELETE"], 'matchConstraints.resourceRules.operations: '
         'Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"'),
    ],
)  # fmt: skip
def test_a_mutating_policy_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(MUTATING_POLICIES, MUTATING_POLICY) == []
    found = create_problems(MUTATING_POLICIES, altered(MUTATING_POLICY, {f"spec.{path}": value}))
    assert found == [f"spec.{problem}"]


BINDING = {"spec": {"policyName": "p", "validationActions": ["Deny"]}}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("policyName", "", "policyName: Required value"),
        ("validationActions", [], "validationActions: Required value"),
        ("validationActions", ["Log"], 'validationActions[0]: Unsupported value: "Log": supported values: "Audit", '
         '"Deny", "Warn"'),
        ("validationActions", ["Deny", "Deny"], 'validationActions[1]: Duplicate value: "Deny"'),
        ("validationActions", ["Deny", "Warn"],
         'validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same '
         "validation failure information in the API response and headers serves no purpose)"),
        ("paramRef", {"parameterNotFoundAction": "Deny"}, "paramRef: Required value: one of name or selector must be "
         "specified"),
        ("paramRef", {"name": "x"}, "paramRef.parameterNotFoundAction: Required value"),
        ("paramRef", {"name": "x", "parameterNotFoundAction": "Shrug"},
         'paramRef.parameterNotFoundAction: Unsupported value: "Shrug": supported values: "Deny", "Allow"'),
    ],
)  # fmt: skip
def test_a_binding_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(BINDINGS, BINDING) == []
    assert create_problems(BINDINGS, altered(BINDING, {f"spec.{path}": value})) == [f"spec.{problem}"]


def test_a_mutating_binding_names_its_policy() -> None:
    assert create_problems(MUTATING_BINDINGS, {"spec": {"policyName": "p"}}) == []
    assert update_problems(MUTATING_BINDINGS, {"spec": {"policyName": "p"}}, {}) == ["spec.policyName: Required value"]
