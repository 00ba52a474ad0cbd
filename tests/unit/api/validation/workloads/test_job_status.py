# SPDX-License-Identifier: Apache-2.0
"""Rules of updates of a Job's status."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, updates

JOB = {
    "spec": {
        "manualSelector": True,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
        },
    },
    "status": {"startTime": "2026-01-01T00:00:00Z"},
}
INDEXED = {**JOB, "spec": {**JOB["spec"], "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1}}
LATER = "2026-01-02T00:00:00Z"
EARLIER = "2025-01-02T00:00:00Z"


def status(*conditions: str, **fields: Any) -> dict[str, Any]:
    listed = [{"type": one, "status": "True"} for one in conditions]
    return {"status.conditions": listed, **{f"status.{name}": value for name, value in fields.items()}}


CASES = [
    *updates("jobs.batch", JOB, [
        ({}, status(active=-1), ["status.active: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(succeeded=-1),
            ["status.succeeded: Invalid value: -1: must be greater than or equal to 0",
             "status.succeeded: Invalid value: -1: cannot decrease the succeeded counter"]),
        ({}, status(failed=-1),
            ["status.failed: Invalid value: -1: must be greater than or equal to 0",
             "status.failed: Invalid value: -1: cannot decrease the failed counter"]),
        ({}, status(ready=-1), ["status.ready: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(terminating=-1), ["status.terminating: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, status(uncountedTerminatedPods={"succeeded": [""]}),
            ['status.uncountedTerminatedPods.succeeded[0]: Invalid value: "": must not be empty']),
        ({}, status(uncountedTerminatedPods={"succeeded": ["a"], "failed": ["a"]}),
            ['status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"']),
        ({}, status("Complete", "SuccessCriteriaMet", "Failed", "FailureTarget", completionTime=LATER),
            ["status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
             "status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
             "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
             ("status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true "
             "conditions")]),
        ({}, status(completionTime=LATER),
            ['status.completionTime: Invalid value: "2026-01-02T00:00:00Z": cannot set completionTime when '
             "there is no Complete=True condition"]),
        ({}, status("SuccessCriteriaMet", "Complete"),
            ["status.completionTime: Required value: completionTime is required for Complete jobs"]),
        ({}, status("SuccessCriteriaMet", "Complete", completionTime=EARLIER),
            ['status.completionTime: Invalid value: "2025-01-02T00:00:00Z": must be equal to or after `startTime`']),
        ({}, status("Failed"),
            ["status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true "
             "condition"]),
        ({}, status("Complete", completionTime=LATER),
            ["status.conditions: Invalid value: cannot set Complete=True condition without the "
             "SuccessCriteriaMet=true condition"]),
        ({}, status("Failed", "FailureTarget", active=1),
            ["status.active: Invalid value: 1: active>0 is invalid for finished job"]),
        ({}, status("Failed", "FailureTarget", startTime=None),
            ["status.startTime: Required value: startTime is required for finished job",
             "status.startTime: Invalid value: null: field is immutable for unsuspended job once set"]),
        ({}, status("Failed", "FailureTarget", uncountedTerminatedPods={"failed": ["a"]}),
            ['status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty '
             "for finished job"]),
        ({}, status("Failed", "FailureTarget", terminating=1),
            ["status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"]),
        ({}, status(ready=1), ["status.ready: Invalid value: 1: cannot set more ready pods than active"]),
        ({}, status("SuccessCriteriaMet", "Failed", "FailureTarget"),
            ["status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
             ("status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true "
             "conditions")]),
        (status("Failed", "FailureTarget"), status("FailureTarget"),
            ["status.conditions: Invalid value: cannot disable the terminal Failed=True condition"]),
        (status("SuccessCriteriaMet", "Complete", completionTime=LATER), status("SuccessCriteriaMet"),
            ["status.conditions: Invalid value: cannot disable the terminal Complete=True condition"]),
        (status("FailureTarget"), status(),
            ["status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition"]),
        (status("SuccessCriteriaMet"), status(),
            ["status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition"]),
        (status("Complete", completionTime=LATER), status("Complete", "SuccessCriteriaMet", completionTime=LATER),
            ["status.conditions: Invalid value: cannot set SuccessCriteriaMet=True for Job already has "
             "Complete=true conditions"]),
        (status("SuccessCriteriaMet", "Complete", completionTime=LATER),
         status("SuccessCriteriaMet", "Complete", completionTime="2026-01-03T00:00:00Z"),
         ['status.completionTime: Invalid value: "2026-01-03T00:00:00Z": field is immutable']),
        ({}, status(startTime=LATER),
            ['status.startTime: Invalid value: "2026-01-02T00:00:00Z": field is immutable for unsuspended job '
             "once set"]),
        (status(failed=2), status(failed=1), ["status.failed: Invalid value: 1: cannot decrease the failed counter"]),
        (status(succeeded=2), status(succeeded=1),
            ["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"]),
        ({}, status(completedIndexes="0"),
            ['status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when '
             "non-indexed completion mode"]),
        ({}, status(failedIndexes="0"),
            ['status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when '
             "backoffLimitPerIndex is null"]),
    ], "status"),
    *updates("jobs.batch", INDEXED, [
        ({}, status(completedIndexes="x"),
            ['status.completedIndexes: Invalid value: "x": error parsing completedIndexes: cannot convert '
             'string to integer for index: "x"']),
        ({}, status(failedIndexes="x"),
            ['status.failedIndexes: Invalid value: "x": error parsing failedIndexes: cannot convert string to '
             'integer for index: "x"']),
        ({}, status(completedIndexes="0-1", failedIndexes="1-2"),
            ['status.failedIndexes: Invalid value: "1-2": failedIndexes and completedIndexes overlap at index: 1']),
        ({"spec.successPolicy": {"rules": [{"succeededCount": 1}]}}, {
            "spec.successPolicy": {"rules": [{"succeededCount": 1}]}, **status("Complete", completionTime=LATER)},
            [("status.conditions: Invalid value: cannot set Complete=True condition without the "
             "SuccessCriteriaMet=true condition"),
             ("status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless "
             "SuccessCriteriaMet=True")]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_statuses_are_reported(case: Case) -> None:
    assert case.found() == case.errors
