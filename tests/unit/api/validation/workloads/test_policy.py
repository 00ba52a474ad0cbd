# SPDX-License-Identifier: Apache-2.0
"""Rules of PodDisruptionBudgets."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

BUDGET = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}

CASES = [
    *creates("poddisruptionbudgets.policy", BUDGET, [
        ({"spec.maxUnavailable": 1},
            ["spec: Invalid value: "
             '{"MinAvailable":1,"Selector":{"matchLabels":{"a":"b"}},"MaxUnavailable":1,"UnhealthyPodEvict'
             'ionPolicy":null}: minAvailable and maxUnavailable cannot be both set']),
        ({"spec.minAvailable": -1}, ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.minAvailable": "x"},
            ['spec.minAvailable: Invalid value: "x": a valid percent string must be a numeric string followed '
             "by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"]),
        ({"spec.minAvailable": "101%"}, ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%']),
        ({"spec.selector": {"matchLabels": {"a b": "c"}}},
            ['spec.selector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.unhealthyPodEvictionPolicy": "U"},
            ['spec.unhealthyPodEvictionPolicy: Unsupported value: "U": supported values: "AlwaysAllow", '
             '"IfHealthyBudget"']),
    ]),
    *updates("poddisruptionbudgets.policy", BUDGET, [
        ({}, {"spec.minAvailable": -1}, ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]),
    ]),
    *updates("poddisruptionbudgets.policy", BUDGET, [
        ({}, {"status.disruptionsAllowed": -1},
            ["status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"status.currentHealthy": -1},
            ["status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"status.desiredHealthy": -1},
            ["status.desiredHealthy: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"status.expectedPods": -1},
            ["status.expectedPods: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"status.conditions": [{"type": "T", "status": "S", "reason": "R"}]},
            ['status.conditions[0].status: Unsupported value: "S": supported values: "False", "True", "Unknown"',
             "status.conditions[0].lastTransitionTime: Required value"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_budgets_are_reported(case: Case) -> None:
    assert case.found() == case.errors
