# SPDX-License-Identifier: Apache-2.0
"""Validation tests of flow schemas and priority levels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

SCHEMAS = "flowschemas.flowcontrol.apiserver.k8s.io"
LEVELS = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
RESOURCES = {"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
SCHEMA = {
    "spec": {
        "priorityLevelConfiguration": {"name": "global-default"},
        "matchingPrecedence": 500,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [{"kind": "User", "user": {"name": "jane"}}],
                "resourceRules": [RESOURCES],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/healthz/*", "/"]}],
            }
        ],
    }
}
RULE, AT = "spec.rules.0", "spec.rules[0]"


def test_a_full_schema_passes() -> None:
    assert create_problems(SCHEMAS, SCHEMA) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.matchingPrecedence", -1, "spec.matchingPrecedence: Invalid value: -1: must be a positive value"),
        ("spec.matchingPrecedence", 10001, "spec.matchingPrecedence: Invalid value: 10001: must not be greater than "
         "10000"),
        ("spec.matchingPrecedence", 1, "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may "
         "have matchingPrecedence 1"),
        ("spec.priorityLevelConfiguration", {}, "spec.priorityLevelConfiguration.name: Required value: must reference "
         "a priority level"),
        ("spec.distinguisherMethod.type", "ByMood", 'spec.distinguisherMethod.type: Unsupported value: '
         '{"Type":"ByMood"}: supported values: "ByNamespace", "ByUser"'),
        (f"{RULE}.subjects", [], f"{AT}.subjects: Required value: subjects must contain at least one value"),
        (f"{RULE}.subjects.0.kind", "Robot", f'{AT}.subjects[0].kind: Unsupported value: "Robot": supported values: '
         '"Group", "ServiceAccount", "User"'),
        (f"{RULE}.subjects.0.user", None, f"{AT}.subjects[0].user: Required value: user is required when subject kind "
         "is 'User'"),
        (f"{RULE}.subjects.0.group", {"name": "g"}, f"{AT}.subjects[0].group: Forbidden: group is forbidden when "
         "subject kind is not 'Group'"),
        (f"{RULE}.resourceRules.0.verbs", ["frob"], f'{AT}.resourceRules[0].verbs: Unsupported value: ["frob"]: '
         'supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", '
         '"watch"'),
        (f"{RULE}.resourceRules.0.resources", ["*", "pods"], f"{AT}.resourceRules[0].resources: Invalid value: "
         "[\"*\",\"pods\"]: if '*' is present, must not specify other resources"),
        (f"{RULE}.resourceRules.0.namespaces", [], f"{AT}.resourceRules[0].namespaces: Required value: resource rules "
         "that are not cluster scoped must supply at least one namespace"),
        (f"{RULE}.nonResourceRules.0.nonResourceURLs", ["x"], f'{AT}.nonResourceRules[0].nonResourceURLs[0]: Invalid '
         'value: "x": must start with slash'),
        (f"{RULE}.nonResourceRules.0.nonResourceURLs", ["/a*"], f'{AT}.nonResourceRules[0].nonResourceURLs[0]: '
         'Invalid value: "/a*": wildcard can only do suffix matching'),
        (f"{RULE}.nonResourceRules.0.nonResourceURLs", ["/a//b"], f'{AT}.nonResourceRules[0].nonResourceURLs[0]: '
         'Invalid value: "/a//b": must not contain double slash'),
    ],
)  # fmt: skip
def test_a_schema_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(SCHEMAS, altered(SCHEMA, {path: value})) == [problem]


def test_mandatory_schemas_are_immutable() -> None:
    manifest = {"metadata": {"name": "exempt"}, "spec": {"priorityLevelConfiguration": {"name": "exempt"}}}
    assert create_problems(SCHEMAS, manifest) == [
        'spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"exempt"},"MatchingPrecedence":1000,'
        '"DistinguisherMethod":null,"Rules":null}: spec of \'exempt\' must equal the fixed value'
    ]


def test_condition_types_are_unique() -> None:
    new = altered(SCHEMA, {"status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}})
    assert update_problems(SCHEMAS, SCHEMA, new, "status") == [
        'status.conditions[1].type: Duplicate value: "A"',
        "status.conditions[2].type: Required value",
    ]


LEVEL = {
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}},
        },
    }
}
QUEUING = "spec.limited.limitResponse.queuing"


def test_a_full_level_passes() -> None:
    assert create_problems(LEVELS, LEVEL) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.limited", None, "spec.limited: Required value"),
        ("spec.exempt", {}, "spec.exempt: Forbidden"),
        ("spec.limited.nominalConcurrencyShares", -1, "spec.limited.nominalConcurrencyShares: Invalid value: -1: must "
         "be a non-negative integer"),
        ("spec.limited.lendablePercent", 101, "spec.limited.lendablePercent: Invalid value: 101: must be between 0 "
         "and 100, inclusive"),
        ("spec.limited.borrowingLimitPercent", -1, "spec.limited.borrowingLimitPercent: Invalid value: -1: if "
         "specified, must be a non-negative integer"),
        ("spec.limited.limitResponse.type", "Reject", "spec.limited.limitResponse.queuing: Forbidden"),
        (f"{QUEUING}.handSize", 65, f"{QUEUING}.handSize: Invalid value: 65: should not be greater than queues (64)"),
        (f"{QUEUING}.handSize", 11, f"{QUEUING}.handSize: Invalid value: 11: required entropy bits of deckSize 64 and "
         "handSize 11 should not be greater than 60"),
        (f"{QUEUING}.queues", 10_000_001, f"{QUEUING}.queues: Invalid value: 10000001: must not be greater than "
         "10000000"),
        (f"{QUEUING}.queueLengthLimit", -1, f"{QUEUING}.queueLengthLimit: Invalid value: -1: must be positive"),
    ],
)  # fmt: skip
def test_a_level_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    changes = {path: value}
    if path.endswith(".queues"):
        changes[f"{QUEUING}.handSize"] = 1
    assert create_problems(LEVELS, altered(LEVEL, changes)) == [problem]


def test_only_the_exempt_level_is_exempt() -> None:
    detail = "must be 'Exempt' if and only if `name` is 'exempt'"
    assert create_problems(LEVELS, {"spec": {"type": "Exempt"}}) == [f'spec.type: Invalid value: "Exempt": {detail}']
    exempt = {"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {"lendablePercent": 50}}}
    assert create_problems(LEVELS, exempt) == []
    assert len(create_problems(LEVELS, {**LEVEL, "metadata": {"name": "catch-all"}})) == 1
