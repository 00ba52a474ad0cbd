# SPDX-License-Identifier: Apache-2.0
"""Rules of CronJobs, their schedules and time zones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates

CRON_JOB = {
    "spec": {
        "schedule": "* * * * *",
        "jobTemplate": {
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
        },
    },
}


def schedule(text: str) -> dict[str, Any]:
    return {"spec.schedule": text}


CASES = [
    *creates("cronjobs.batch", CRON_JOB, [
        (schedule(""), ["spec.schedule: Required value"]),
        (schedule("* * * *"),
            ['spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]']),
        (schedule("x * * * *"),
            ['spec.schedule: Invalid value: "x * * * *": failed to parse int from x: strconv.Atoi: parsing "x": '
             "invalid syntax"]),
        (schedule("99999999999999999999 * * * *"),
            ['spec.schedule: Invalid value: "99999999999999999999 * * * *": failed to parse int from '
             '99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range']),
        (schedule("1-2-3 * * * *"), ['spec.schedule: Invalid value: "1-2-3 * * * *": too many hyphens: 1-2-3']),
        (schedule("1/2/3 * * * *"), ['spec.schedule: Invalid value: "1/2/3 * * * *": too many slashes: 1/2/3']),
        (schedule("*/0 * * * *"),
            ['spec.schedule: Invalid value: "*/0 * * * *": step of range should be a positive number: */0']),
        (schedule("* * 0 * *"),
            ['spec.schedule: Invalid value: "* * 0 * *": beginning of range (0) below minimum (1): 0']),
        (schedule("60 * * * *"),
            ['spec.schedule: Invalid value: "60 * * * *": end of range (60) above maximum (59): 60']),
        (schedule("5-2 * * * *"),
            ['spec.schedule: Invalid value: "5-2 * * * *": beginning of range (5) beyond end of range (2): 5-2']),
        (schedule("-1 * * * *"),
            ['spec.schedule: Invalid value: "-1 * * * *": failed to parse int from : strconv.Atoi: parsing "": '
             "invalid syntax"]),
        (schedule("*/-1 * * * *"),
            ['spec.schedule: Invalid value: "*/-1 * * * *": negative number (-1) not allowed: -1']),
        (schedule("@x"), ['spec.schedule: Invalid value: "@x": unrecognized descriptor: @x']),
        (schedule("@every x"),
            ['spec.schedule: Invalid value: "@every x": failed to parse duration @every x: time: invalid '
             'duration "x"']),
        (schedule("TZ=UTC"),
            [('spec.schedule: Invalid value: "TZ=UTC": invalid schedule format: runtime error: slice bounds out '
             "of range [:-1]"),
             ('spec.schedule: Invalid value: "TZ=UTC": cannot use TZ or CRON_TZ in schedule, use timeZone field '
             "instead")]),
        (schedule("TZ=X/Y * * * * *"),
            ['spec.schedule: Invalid value: "TZ=X/Y * * * * *": provided bad location X/Y: unknown time zone X/Y',
             ('spec.schedule: Invalid value: "TZ=X/Y * * * * *": cannot use TZ or CRON_TZ in schedule, use '
             "timeZone field instead")]),
        (schedule("TZ=UTC * * * * *"),
            ['spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use '
             "timeZone field instead"]),
        ({"spec.startingDeadlineSeconds": -1},
            ["spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.timeZone": ""}, ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string']),
        ({"spec.timeZone": "a b"}, ['spec.timeZone: Invalid value: "a b": unknown time zone a b']),
        ({"spec.timeZone": "X/Y"}, ['spec.timeZone: Invalid value: "X/Y": unknown time zone X/Y']),
        ({"spec.timeZone": "local"},
            [('spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone as defined in '
             "https://www.iana.org/time-zones"),
             'spec.timeZone: Invalid value: "local": unknown time zone local']),
        ({"spec.timeZone": "Local"},
            ['spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in '
             "https://www.iana.org/time-zones"]),
        ({"spec.concurrencyPolicy": "C"},
            ['spec.concurrencyPolicy: Unsupported value: "C": supported values: "Allow", "Forbid", "Replace"']),
        ({"spec.jobTemplate.spec.parallelism": -1},
            ["spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.jobTemplate.spec.selector": {"matchLabels": {"a": "b"}}},
            ['spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be '
             "auto-generated"]),
        ({"spec.jobTemplate.spec.manualSelector": True},
            ['spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"']),
        ({"spec.successfulJobsHistoryLimit": -1},
            ["spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.failedJobsHistoryLimit": -1},
            ["spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
        ({"metadata": {"name": "n" * 53}},
            ['metadata.name: Invalid value: "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn": must be no '
             "more than 52 characters"]),
    ]),
    *updates("cronjobs.batch", CRON_JOB, [
        ({}, schedule("TZ=UTC * * * * *"),
            ['spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use '
             "timeZone field instead"]),
        (schedule("TZ=UTC * * * * *"), {**schedule("TZ=UTC * * * * *"), "spec.timeZone": "UTC"},
            ['spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or '
             "CRON_TZ in schedule"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_cron_jobs_are_reported(case: Case) -> None:
    assert case.found() == case.errors
