# SPDX-License-Identifier: Apache-2.0
"""Rules of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN

RESOURCES = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/a"]}
SUBJECT = {"kind": "User", "user": {"name": "u"}}
RULE = {"subjects": [SUBJECT], "resourceRules": [RESOURCES]}
SCHEMA = {"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5, "rules": [RULE]}}
QUEUING = {"queues": 8, "handSize": 2, "queueLengthLimit": 5}
LEVEL = {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": QUEUING}}}}
RESPONSE = "spec.limited.limitResponse"


def rule(**fields: Any) -> dict[str, Any]:
    return {"spec.rules": [{**RULE, **fields}]}


def subject(kind: str, **detail: Any) -> dict[str, Any]:
    return rule(subjects=[{"kind": kind, **detail}])


def resources(**fields: Any) -> dict[str, Any]:
    return rule(resourceRules=[{**RESOURCES, **fields}])


def urls(**fields: Any) -> dict[str, Any]:
    return rule(nonResourceRules=[{**URLS, **fields}])


def condition(**fields: str) -> dict[str, Any]:
    return {"status.conditions": [{"type": "T", "status": "True", **fields}]}


CASES = [
    *creates("flowschemas.flowcontrol.apiserver.k8s.io", SCHEMA, [
        ({"spec.matchingPrecedence": -1}, ["spec.matchingPrecedence: Invalid value: -1: must be a positive value"]),
        ({"spec.matchingPrecedence": 10001},
            ["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"]),
        ({"spec.matchingPrecedence": 1},
            ["spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have "
             "matchingPrecedence 1"]),
        ({"spec.distinguisherMethod": {"type": "D"}},
            ['spec.distinguisherMethod.type: Unsupported value: {"Type":"D"}: supported values: "ByNamespace", '
             '"ByUser"']),
        ({"spec.priorityLevelConfiguration": {"name": ""}},
            ["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"]),
        ({"spec.priorityLevelConfiguration": {"name": "P_"}},
            ['spec.priorityLevelConfiguration.name: Invalid value: "P_": ' + DNS_SUBDOMAIN]),
        (rule(subjects=[]), ["spec.rules[0].subjects: Required value: subjects must contain at least one value"]),
        (rule(resourceRules=[]),
            ["spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be "
             "non-empty"]),
        (subject("K"),
            ['spec.rules[0].subjects[0].kind: Unsupported value: "K": supported values: "Group", '
             '"ServiceAccount", "User"']),
        (subject("User"),
            ["spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'"]),
        (subject("User", user={"name": ""}), ["spec.rules[0].subjects[0].user.name: Required value"]),
        (subject("Group", group={"name": "g"}, user={"name": "u"}),
            ["spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'"]),
        (subject("ServiceAccount", serviceAccount={"name": "N_", "namespace": "n"}),
            ['spec.rules[0].subjects[0].serviceAccount.name: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (subject("ServiceAccount", serviceAccount={"name": "n", "namespace": ""}),
            ["spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for "
             "service account"]),
        (subject("ServiceAccount", serviceAccount={"name": "n", "namespace": "N_"}),
            ['spec.rules[0].subjects[0].serviceAccount.namespace: Invalid value: "N_": ' + DNS_LABEL]),
        (resources(verbs=[]),
            ["spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value"]),
        (resources(verbs=["v"]),
            ['spec.rules[0].resourceRules[0].verbs: Unsupported value: ["v"]: supported values: "create", '
             '"delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"']),
        (resources(verbs=["*", "get"]),
            ["spec.rules[0].resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not "
             "specify other verbs"]),
        (resources(apiGroups=[]),
            ["spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one "
             "api group"]),
        (resources(resources=[]),
            ["spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one "
             "resource"]),
        (resources(namespaces=[]),
            ["spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster "
             "scoped must supply at least one namespace"]),
        (resources(namespaces=["N_"]),
            ['spec.rules[0].resourceRules[0].namespaces[0]: Invalid value: "N_": each member of '
             "this list must be '*' or a DNS-1123 label; " + DNS_LABEL]),
        (urls(verbs=[]),
            ["spec.rules[0].nonResourceRules[0].verbs: Required value: verbs must contain at least one value"]),
        (urls(nonResourceURLs=[]),
            ["spec.rules[0].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain "
             "at least one value"]),
        (urls(nonResourceURLs=["a"]),
            ['spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start with slash']),
        (urls(nonResourceURLs=["/a/*/b"]),
            ['spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a/*/b": wildcard can only '
             "do suffix matching"]),
        (urls(nonResourceURLs=["/a b"]),
            ['spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a b": must not contain '
             "white-space"]),
    ]),
    *updates("flowschemas.flowcontrol.apiserver.k8s.io", SCHEMA, [
        ({}, {"spec.matchingPrecedence": -1},
            ["spec.matchingPrecedence: Invalid value: -1: must be a positive value"]),
    ]),
    *updates("flowschemas.flowcontrol.apiserver.k8s.io", SCHEMA, [
        ({}, condition(type=""), ["status.conditions[0].type: Required value"]),
        ({}, {"status.conditions": [{"type": "T", "status": "True"}] * 2},
            ['status.conditions[1].type: Duplicate value: "T"']),
    ], "status"),
    *creates("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", LEVEL, [
        ({"metadata": {"annotations": {"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares": ""}}},
            ["metadata.annotations: Forbidden: annotation "
             "'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden"]),
        ({"spec.type": ""}, ["spec.limited: Forbidden", "spec.type: Required value"]),
        ({"spec.type": "T"},
            ['spec.type: Unsupported value: "T": supported values: "Exempt", "Limited"', "spec.limited: Forbidden"]),
        ({"spec.type": "Exempt", "spec.limited": None},
            ["spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"]),
        ({"spec.exempt": {}}, ["spec.exempt: Forbidden"]),
        ({"spec.limited": None}, ["spec.limited: Required value"]),
        ({"spec.limited.nominalConcurrencyShares": -1},
            ["spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"]),
        ({"spec.limited.lendablePercent": 101},
            ["spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"]),
        ({"spec.limited.borrowingLimitPercent": -1},
            ["spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"]),
        ({RESPONSE: {"type": ""}}, ["spec.limited.limitResponse.type: Required value"]),
        ({RESPONSE: {"type": "", "queuing": QUEUING}},
            ["spec.limited.limitResponse.queuing: Forbidden", "spec.limited.limitResponse.type: Required value"]),
        ({RESPONSE: {"type": "T"}},
            ['spec.limited.limitResponse.type: Unsupported value: "T": supported values: "Queue", "Reject"']),
        ({RESPONSE: {"type": "Queue"}}, ["spec.limited.limitResponse.queuing: Required value"]),
        ({RESPONSE: {"type": "Reject", "queuing": QUEUING}}, ["spec.limited.limitResponse.queuing: Forbidden"]),
        ({RESPONSE + ".queuing": {**QUEUING, "queueLengthLimit": -1}},
            ["spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive"]),
        ({RESPONSE + ".queuing": {**QUEUING, "queues": -1}},
            ["spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive",
             ("spec.limited.limitResponse.queuing.handSize: Invalid value: 2: should not be greater than queues "
             "(-1)")]),
        ({RESPONSE + ".queuing": {**QUEUING, "queues": 10_000_001}},
            ["spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than "
             "10000000"]),
        ({RESPONSE + ".queuing": {**QUEUING, "handSize": -1}},
            ["spec.limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive"]),
        ({RESPONSE + ".queuing": {**QUEUING, "handSize": 9}},
            ["spec.limited.limitResponse.queuing.handSize: Invalid value: 9: should not be greater than queues (8)"]),
        ({RESPONSE + ".queuing": {**QUEUING, "queues": 10_000_000, "handSize": 10}},
            ["spec.limited.limitResponse.queuing.handSize: Invalid value: 10: required entropy bits of deckSize "
             "10000000 and handSize 10 should not be greater than 60"]),
        ({"metadata": {"name": "catch-all"}},
            ["spec: Invalid value: "
             '{"Type":"Limited","Limited":{"NominalConcurrencyShares":30,"LimitResponse":{"Type":"Queue","'
             'Queuing":{"Queues":8,"HandSize":2,"QueueLengthLimit":5}},"LendablePercent":0,"BorrowingLimit'
             "Percent\":null},\"Exempt\":null}: spec of 'catch-all' must equal the fixed value"]),
    ]),
    *creates("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", {
            "metadata": {"name": "exempt"}, "spec": {"type": "Exempt"}}, [
        ({"spec.exempt": {"nominalConcurrencyShares": -1}},
            ["spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"]),
        ({"spec.exempt": {"lendablePercent": 101}},
            ["spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"]),
    ]),
    *updates("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", LEVEL, [
        ({}, {"spec.limited.lendablePercent": 101},
            ["spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_flow_control_is_reported(case: Case) -> None:
    assert case.found() == case.errors
