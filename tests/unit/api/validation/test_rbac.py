# SPDX-License-Identifier: Apache-2.0
"""Validation tests of roles and bindings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({**RULE, "verbs": []}, "rules[0].verbs: Required value"),
        ({**RULE, "apiGroups": []}, "rules[0].apiGroups: Required value: resource rules must supply at least one api "
         "group"),
        ({**RULE, "resources": []}, "rules[0].resources: Required value: resource rules must supply at least one "
         "resource"),
        ({"verbs": ["get"], "nonResourceURLs": ["/x"]}, 'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced '
         'rules cannot apply to non-resource URLs'),
    ],
)  # fmt: skip
def test_a_role_with_one_bad_rule(rule: dict[str, Any], problem: str) -> None:
    assert create_problems(ROLES, {"rules": [rule]}) == [problem]
    assert update_problems(ROLES, {"rules": []}, {"rules": [rule]}) == [problem]


def test_cluster_role_may_have_only_non_resource_urls() -> None:
    rule = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}
    assert create_problems(CLUSTER_ROLES, {"rules": [rule]}) == []
    assert create_problems(CLUSTER_ROLES, {"rules": [{**rule, "resources": ["pods"]}]}) == [
        'rules[0].nonResourceURLs: Invalid value: ["/healthz"]: '
        "rules cannot apply to both regular resources and non-resource URLs"
    ]


def test_aggregation_rule_needs_selectors() -> None:
    assert create_problems(CLUSTER_ROLES, {"aggregationRule": {}}) == [
        "aggregationRule.clusterRoleSelectors: Required value: "
        "at least one clusterRoleSelector required if aggregationRule is non-nil"
    ]


REF = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
USER = {"kind": "User", "apiGroup": GROUP, "name": "jane"}
ACCOUNT = {"kind": "ServiceAccount", "name": "default"}


def test_valid_bindings_pass() -> None:
    assert create_problems(BINDINGS, {"roleRef": REF, "subjects": [USER, ACCOUNT]}) == []
    assert create_problems(CLUSTER_BINDINGS, {"roleRef": REF, "subjects": [{**ACCOUNT, "namespace": "n"}]}) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("roleRef.apiGroup", "apps", f'roleRef.apiGroup: Unsupported value: "apps": supported values: "{GROUP}"'),
        ("roleRef.kind", "Hat", 'roleRef.kind: Unsupported value: "Hat": supported values: "ClusterRole"'),
        ("roleRef.name", "", "roleRef.name: Required value"),
        ("roleRef.name", "a/b", "roleRef.name: Invalid value: \"a/b\": may not contain '/'"),
        ("subjects", [{**USER, "name": ""}], "subjects[0].name: Required value"),
        ("subjects", [{**USER, "apiGroup": "x"}], f'subjects[0].apiGroup: Unsupported value: "x": supported values: '
         f'"{GROUP}"'),
        ("subjects", [{"kind": "Robot", "name": "r"}], 'subjects[0].kind: Unsupported value: "Robot": supported '
         'values: "ServiceAccount", "User", "Group"'),
        ("subjects", [ACCOUNT], "subjects[0].namespace: Required value"),
        ("subjects", [{**ACCOUNT, "namespace": "n", "apiGroup": "x"}], 'subjects[0].apiGroup: Unsupported value: "x": '
         'supported values: ""'),
    ],
)  # fmt: skip
def test_a_cluster_binding_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(CLUSTER_BINDINGS, altered({"roleRef": REF}, {path: value})) == [problem]


@pytest.mark.parametrize("bindings", [BINDINGS, CLUSTER_BINDINGS])
def test_role_of_a_binding_is_immutable(bindings: str) -> None:
    found = update_problems(bindings, {"roleRef": REF}, {"roleRef": {**REF, "name": "edit"}})
    shown = f'{{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"edit"}}'
    assert found == [f"roleRef: Invalid value: {shown}: field is immutable"]
