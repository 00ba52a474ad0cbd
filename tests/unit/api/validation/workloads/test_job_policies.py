# SPDX-License-Identifier: Apache-2.0
"""Rules of failure and success policies of Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates
from tests.unit.api.validation.messages import QUALIFIED_NAME

JOB = {
    "spec": {
        "manualSelector": True,
        "selector": {"matchLabels": {"a": "b"}},
        "completionMode": "Indexed",
        "completions": 3,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
        },
    },
}
CODES = {"operator": "In", "values": [1]}
CONDITION = {"type": "T", "status": "True"}


def failure(**rule: Any) -> dict[str, Any]:
    return {"spec.podFailurePolicy": {"rules": [{"action": "FailJob", **rule}]}}


def codes(**fields: Any) -> dict[str, Any]:
    return failure(onExitCodes={**CODES, **fields})


def condition(**fields: Any) -> dict[str, Any]:
    return failure(onPodConditions=[{**CONDITION, **fields}])


def success(**rule: Any) -> dict[str, Any]:
    return {"spec.successPolicy": {"rules": [rule]}}


CASES = [
    *creates("jobs.batch", JOB, [
        ({"spec.podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": CODES}] * 21}},
            ["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"]),
        (failure(action="", onExitCodes=CODES),
            ['spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" '
             '"FailJob" "Ignore"]']),
        (failure(action="A", onExitCodes=CODES),
            ['spec.podFailurePolicy.rules[0].action: Unsupported value: "A": supported values: "Count", '
             '"FailIndex", "FailJob", "Ignore"']),
        (failure(action="FailIndex", onExitCodes=CODES),
            ['spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the '
             "backoffLimitPerIndex to be set"]),
        (failure(),
            ["spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions "
             "is required"]),
        (failure(onExitCodes=CODES, onPodConditions=[CONDITION]),
            ["spec.podFailurePolicy.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is "
             "not supported"]),
        (failure(onPodConditions=[CONDITION] * 21),
            ["spec.podFailurePolicy.rules[0].onPodConditions: Too many: 21: must have at most 20 items"]),
        (condition(type="a b"),
            ['spec.podFailurePolicy.rules[0].onPodConditions[0].type: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (condition(status="S"),
            ['spec.podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "S": supported '
             'values: "False", "True", "Unknown"']),
        (codes(operator=""),
            ['spec.podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]']),
        (codes(operator="O"),
            ['spec.podFailurePolicy.rules[0].onExitCodes.operator: Unsupported value: "O": supported values: '
             '"In", "NotIn"']),
        (codes(containerName="d"),
            ['spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "d": must be one of the '
             "container or initContainer names in the pod template"]),
        (codes(values=None),
            ["spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: null: at least one value is "
             "required"]),
        (codes(values=list(range(1, 257))),
            ["spec.podFailurePolicy.rules[0].onExitCodes.values: Too many: 256: must have at most 255 items"]),
        (codes(values=[0]),
            ["spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In "
             "operator"]),
        (codes(values=[1, 1]), ["spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Duplicate value: 1"]),
        (codes(values=[2, 1]),
            ["spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered"]),
        ({"spec.successPolicy": {"rules": []}},
            ["spec.successPolicy.rules: Required value: at least one rules must be specified when the "
             "successPolicy is specified"]),
        ({"spec.successPolicy": {"rules": [{"succeededCount": 1}] * 21}},
            ["spec.successPolicy.rules: Too many: 21: must have at most 20 items"]),
        (success(),
            ["spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes "
             "must be specified"]),
        (success(succeededCount=-1),
            ["spec.successPolicy.rules[0].succeededCount: Invalid value: -1: must be greater than or equal to 0"]),
        (success(succeededCount=4),
            ["spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 "
             "(the number of specified completions)"]),
        (success(succeededIndexes="0", succeededCount=2),
            ["spec.successPolicy.rules[0].succeededCount: Invalid value: 2: must be less than or equal to 1 "
             "(the number of indexes in the specified succeededIndexes field)"]),
        (success(succeededIndexes="x"),
            ['spec.successPolicy.rules[0].succeededIndexes: Invalid value: "x": error parsing succeededIndexes: '
             'cannot convert string to integer for index: "x"']),
        (success(succeededIndexes="0-1-2"),
            ['spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-1-2": error parsing '
             'succeededIndexes: the fragment "0-1-2" violates the requirement that an index interval can have '
             "at most two parts separated by '-'"]),
        (success(succeededIndexes="1-0"),
            ['spec.successPolicy.rules[0].succeededIndexes: Invalid value: "1-0": error parsing '
             "succeededIndexes: non-increasing order, previous: 1, current: 0"]),
        (success(succeededIndexes="1,0"),
            ['spec.successPolicy.rules[0].succeededIndexes: Invalid value: "1,0": error parsing '
             "succeededIndexes: non-increasing order, previous: 1, current: 0"]),
        (success(succeededIndexes="3"),
            ['spec.successPolicy.rules[0].succeededIndexes: Invalid value: "3": error parsing succeededIndexes: '
             'too large index: "3"']),
        (success(succeededIndexes="0" * 65537),
            ["spec.successPolicy.rules[0].succeededIndexes: Too long: may not be more than 65536 bytes"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_policies_are_reported(case: Case) -> None:
    assert case.found() == case.errors
