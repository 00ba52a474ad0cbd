# SPDX-License-Identifier: Apache-2.0
"""Rules of roles and role bindings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_SUBDOMAIN, QUALIFIED_NAME

RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/a"]}
ROLE = {"rules": [RULE]}
GROUP = "rbac.authorization.k8s.io"
REF = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"}
BINDING = {"roleRef": REF, "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "u"}]}


def selectors(*selectors: dict[str, Any]) -> dict[str, Any]:
    return {"aggregationRule": {"clusterRoleSelectors": list(selectors)}}


def subject(**fields: str) -> dict[str, Any]:
    return {"subjects": [fields]}


CASES = [
    *creates("roles." + GROUP, ROLE, [
        ({"rules": [{**RULE, "verbs": []}]}, ["rules[0].verbs: Required value"]),
        ({"rules": [{**RULE, "apiGroups": []}]},
            ["rules[0].apiGroups: Required value: resource rules must supply at least one api group"]),
        ({"rules": [{**RULE, "resources": []}]},
            ["rules[0].resources: Required value: resource rules must supply at least one resource"]),
        ({"rules": [URLS]},
            ['rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs']),
    ]),
    *updates("roles." + GROUP, ROLE, [
        ({}, {"rules": [{**RULE, "verbs": []}]}, ["rules[0].verbs: Required value"]),
    ]),
    *creates("clusterroles." + GROUP, ROLE, [
        ({"rules": [{**RULE, **URLS}]},
            ['rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and '
             "non-resource URLs"]),
        (selectors(),
            ["aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required "
             "if aggregationRule is non-nil"]),
        (selectors({"matchLabels": {"a b": "c"}}),
            ['aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME,
             "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector."]),
    ]),
    *updates("clusterroles." + GROUP, ROLE, [
        ({}, {"rules": [{**RULE, "verbs": []}]}, ["rules[0].verbs: Required value"]),
    ]),
    *creates("rolebindings." + GROUP, BINDING, [
        ({"roleRef": {**REF, "apiGroup": "g"}},
            ['roleRef.apiGroup: Unsupported value: "g": supported values: "rbac.authorization.k8s.io"']),
        ({"roleRef": {**REF, "kind": "K"}},
            ['roleRef.kind: Unsupported value: "K": supported values: "Role", "ClusterRole"']),
        ({"roleRef": {**REF, "name": ""}}, ["roleRef.name: Required value"]),
        ({"roleRef": {**REF, "name": "a/b"}}, ["roleRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        (subject(apiGroup=GROUP, kind="User", name=""), ["subjects[0].name: Required value"]),
        (subject(apiGroup=GROUP, kind="K", name="u"),
            ['subjects[0].kind: Unsupported value: "K": supported values: "ServiceAccount", "User", "Group"']),
        (subject(apiGroup="g", kind="User", name="u"),
            ['subjects[0].apiGroup: Unsupported value: "g": supported values: "rbac.authorization.k8s.io"']),
        (subject(apiGroup="g", kind="Group", name="u"),
            ['subjects[0].apiGroup: Unsupported value: "g": supported values: "rbac.authorization.k8s.io"']),
        (subject(kind="ServiceAccount", name="N_", namespace="n"),
            ['subjects[0].name: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (subject(apiGroup="g", kind="ServiceAccount", name="n", namespace="n"),
            ['subjects[0].apiGroup: Unsupported value: "g": supported values: ""']),
    ]),
    *creates("clusterrolebindings." + GROUP, BINDING, [
        ({"roleRef": {**REF, "kind": "Role"}},
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"']),
        (subject(kind="ServiceAccount", name="n"), ["subjects[0].namespace: Required value"]),
    ]),
    *updates("rolebindings." + GROUP, BINDING, [
        ({}, {"roleRef": {**REF, "name": "s"}},
            ['roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"s"}: '
             "field is immutable"]),
        ({}, subject(apiGroup="g", kind="User", name="u"),
            ['subjects[0].apiGroup: Unsupported value: "g": supported values: "rbac.authorization.k8s.io"']),
    ]),
    *updates("clusterrolebindings." + GROUP, BINDING, [
        ({}, {"roleRef": {**REF, "name": "s"}},
            ['roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"s"}: '
             "field is immutable"]),
        ({}, subject(apiGroup="g", kind="User", name="u"),
            ['subjects[0].apiGroup: Unsupported value: "g": supported values: "rbac.authorization.k8s.io"']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_roles_are_reported(case: Case) -> None:
    assert case.found() == case.errors
