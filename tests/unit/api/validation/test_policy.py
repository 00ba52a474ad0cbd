# SPDX-License-Identifier: Apache-2.0
"""Validation tests of disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import create_problems, update_problems

BUDGETS = "poddisruptionbudgets.policy"
SELECTOR = {"matchLabels": {"app": "a"}}
NOW = "2026-01-31T09:30:00Z"


@pytest.mark.parametrize("amount", [0, 5, "0%", "100%"])
def test_amounts_are_integers_or_percentages(amount: Any) -> None:
    assert create_problems(BUDGETS, {"spec": {"selector": SELECTOR, "minAvailable": amount}}) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
        ({"maxUnavailable": "101%"}, 'spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%'),
        (
            {"minAvailable": 1, "maxUnavailable": "10%"},
            'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"10%",'
            '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
        ),
        (
            {"unhealthyPodEvictionPolicy": "Never"},
            'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": '
            'supported values: "AlwaysAllow", "IfHealthyBudget"',
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ],
)
def test_a_budget_with_one_bad_field(spec: dict[str, Any], problem: str) -> None:
    assert create_problems(BUDGETS, {"spec": spec}) == [problem]


def status(**fields: Any) -> dict[str, Any]:
    return {"spec": {"selector": SELECTOR}, "status": fields}


def test_counts_in_status_are_not_negative() -> None:
    problem = "status.expectedPods: Invalid value: -1: must be greater than or equal to 0"
    assert update_problems(BUDGETS, status(), status(expectedPods=-1), "status") == [problem]


def test_conditions_in_status_are_complete() -> None:
    good = {"type": "Ready", "status": "True", "reason": "Why", "lastTransitionTime": NOW}
    assert update_problems(BUDGETS, status(), status(conditions=[good]), "status") == []
    assert update_problems(BUDGETS, status(), status(conditions=[{"observedGeneration": -1}]), "status") == [
        "status.conditions[0].lastTransitionTime: Required value",
        "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        "status.conditions[0].reason: Required value",
        "status.conditions[0].status: Required value",
        "status.conditions[0].type: Required value: is required",
    ]


def test_condition_types_are_unique() -> None:
    good = {"type": "Ready", "status": "True", "reason": "Why", "lastTransitionTime": NOW}
    problem = 'status.conditions[1]: Duplicate value: "Ready"'
    assert update_problems(BUDGETS, status(), status(conditions=[good, good]), "status") == [problem]


def test_condition_texts_are_limited() -> None:
    long = {"type": "Ready", "status": "Odd", "reason": "r" * 1025, "lastTransitionTime": NOW, "message": "m" * 32769}
    assert update_problems(BUDGETS, status(), status(conditions=[long]), "status") == [
        "status.conditions[0].message: Too long: may not be more than 32768 bytes",
        "status.conditions[0].reason: Too long: may not be more than 1024 bytes",
        'status.conditions[0].status: Unsupported value: "Odd": supported values: "False", "True", "Unknown"',
    ]
