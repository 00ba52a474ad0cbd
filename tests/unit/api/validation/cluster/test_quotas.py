# SPDX-License-Identifier: Apache-2.0
"""Rules of ResourceQuotas, LimitRanges and Namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

QUOTA = {"spec": {"hard": {"pods": "1"}}}
RANGE = {"spec": {"limits": [{"type": "Container"}]}}
NAMESPACE = {"metadata": {"name": "n"}}


def selector(**expression: Any) -> dict[str, Any]:
    return {"spec.scopeSelector": {"matchExpressions": [expression]}}


def limit(kind: str = "Container", **sides: dict[str, str]) -> dict[str, Any]:
    return {"spec.limits": [{"type": kind, **sides}]}


CASES = [
    *creates("resourcequotas", QUOTA, [
        ({"spec.hard": {"a b": "1"}},
            ['spec.hard[a b]: Invalid value: "a b": ' + QUALIFIED_NAME,
             'spec.hard[a b]: Invalid value: "a b": must be a standard resource for quota']),
        ({"spec.hard": {"storage": "1"}},
            ['spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota']),
        ({"spec.hard": {"pods": "-1"}}, ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"spec.scopes": ["S"]}, ['spec.scopes: Invalid value: ["S"]: unsupported scope']),
        ({"spec.hard": {"services": "1"}, "spec.scopes": ["BestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource']),
        ({"spec.scopes": ["BestEffort", "NotBestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes']),
        (selector(scopeName="S", operator="Exists"),
            ['spec.scopeSelector.matchExpressions.scopeName: Invalid value: "S": unsupported scope']),
        ({"spec.hard": {"services": "1"}, **selector(scopeName="BestEffort", operator="Exists")},
            ["spec.scopeSelector.matchExpressions: Invalid value: "
             '{"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}: unsupported '
             "scope applied to resource"]),
        (selector(scopeName="BestEffort", operator="In", values=["a"]),
            ["spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope "
             "is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
             "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
             "ResourceQuotaScopeCrossNamespacePodAffinity"]),
        (selector(scopeName="PriorityClass", operator="In"),
            ["spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when "
             "`operator` is 'In' or 'NotIn' for scope selector"]),
        (selector(scopeName="PriorityClass", operator="Exists", values=["a"]),
            ['spec.scopeSelector.matchExpressions.values: Invalid value: ["a"]: must be no value when '
             "`operator` is 'Exist' or 'DoesNotExist' for scope selector"]),
        (selector(scopeName="PriorityClass", operator="O"),
            ['spec.scopeSelector.matchExpressions.operator: Invalid value: "O": not a valid selector operator']),
    ]),
    *updates("resourcequotas", QUOTA, [
        ({}, {"spec.scopes": ["BestEffort"]}, ['spec.scopes: Invalid value: ["BestEffort"]: field is immutable']),
        ({}, {"spec.hard": {"pods": "-1"}},
            ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
    ]),
    *updates("resourcequotas", QUOTA, [
        ({}, {"status.hard": {"pods": "-1"}},
            ['status.hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
        ({}, {"status.used": {"pods": "-1"}},
            ['status.used[pods]: Invalid value: "-1": must be greater than or equal to 0']),
    ], "status"),
    *creates("limitranges", RANGE, [
        (limit("a b"), ['spec.limits[0].type: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (limit("T"), ['spec.limits[0].type: Invalid value: "T": must be a standard limit type or fully qualified']),
        ({"spec.limits": [{"type": "Container"}, {"type": "Container"}]},
            ['spec.limits[1].type: Duplicate value: "Container"']),
        (limit("Pod", default={"cpu": "1"}),
            ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"]),
        (limit("Pod", defaultRequest={"cpu": "1"}),
            ["spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"]),
        (limit(max={"disk": "1"}),
            [('spec.limits[0].max[disk]: Invalid value: "disk": must be a standard resource type or fully '
             "qualified"),
             'spec.limits[0].max[disk]: Invalid value: "disk": must be a standard resource for containers',
             ('spec.limits[0].default[disk]: Invalid value: "disk": must be a standard resource type or fully '
             "qualified"),
             'spec.limits[0].default[disk]: Invalid value: "disk": must be a standard resource for containers',
             ('spec.limits[0].defaultRequest[disk]: Invalid value: "disk": must be a standard resource type or '
             "fully qualified"),
             ('spec.limits[0].defaultRequest[disk]: Invalid value: "disk": must be a standard resource for '
             "containers")]),
        (limit("PersistentVolumeClaim"),
            ["spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but "
             "neither was provided"]),
        (limit(min={"cpu": "2"}, max={"cpu": "1"}, default={"cpu": "1"}, defaultRequest={"cpu": "1"}),
            ['spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
             ('spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default '
             "request value 1"),
             'spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1']),
        (limit(min={"cpu": "2"}, defaultRequest={"cpu": "1"}),
            ['spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default '
             "request value 1"]),
        (limit(default={"cpu": "2"}, max={"cpu": "1"}, defaultRequest={"cpu": "1"}),
            ['spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1']),
        (limit(maxLimitRequestRatio={"cpu": "0.5"}),
            ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1']),
        (limit(min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"}),
            ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = '
             "2.000000"]),
        (limit(default={"hugepages-2Mi": "4Mi"}, defaultRequest={"hugepages-2Mi": "2Mi"}),
            ['spec.limits[0].defaultRequest[hugepages-2Mi]: Invalid value: "2Mi": default value 4Mi must equal '
             "to defaultRequest value 2Mi in hugepages-2Mi"]),
    ]),
    *updates("limitranges", RANGE, [
        ({}, limit("T"),
            ['spec.limits[0].type: Invalid value: "T": must be a standard limit type or fully qualified']),
    ]),
    *creates("namespaces", NAMESPACE, [
        ({"spec.finalizers": ["a b"]},
            ['spec.finalizers: Invalid value: "a b": ' + QUALIFIED_NAME,
             ('spec.finalizers: Invalid value: "a b": name is neither a standard finalizer name nor is it fully '
             "qualified")]),
        ({"spec.finalizers": ["f"]},
            ['spec.finalizers: Invalid value: "f": name is neither a standard finalizer name nor is it fully '
             "qualified"]),
    ]),
    *updates("namespaces", NAMESPACE, [
        ({}, {"status.phase": "Terminating"},
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]),
        ({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status.phase": "Terminating"},
         {"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status.phase": "Active"},
         ["status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"]),
    ], "status"),
    *updates("namespaces", NAMESPACE, [
        ({}, {"spec.finalizers": ["a b"]},
            ['spec.finalizers[0]: Invalid value: "a b": ' + QUALIFIED_NAME,
             ('spec.finalizers[0]: Invalid value: "a b": name is neither a standard finalizer name nor is it '
             "fully qualified")]),
    ], "finalize"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_quotas_are_reported(case: Case) -> None:
    assert case.found() == case.errors
