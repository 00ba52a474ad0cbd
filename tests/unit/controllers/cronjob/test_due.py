# SPDX-License-Identifier: Apache-2.0
"""Tests of the due time and the next time of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api.generated.batch_v1 import CronJob, CronJobSpec, CronJobStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.cronjob.cron import parse
from kubeloop.controllers.cronjob.due import NeverDue, most_recent_schedule, seconds_until_next

CREATED = "2026-01-01T09:00:00Z"
DAY = "2026-01-01T"


def cron_job(schedule: str, last: str | None = None, deadline: int | None = None) -> CronJob:
    return CronJob(
        metadata=ObjectMeta(name="a", creation_timestamp=Time(CREATED)),
        spec=CronJobSpec(schedule=schedule, starting_deadline_seconds=deadline),
        status=CronJobStatus(last_schedule_time=Time(last) if last else None),
    )


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "last", "deadline", "now", "moment", "missed"),
    [
        ("0 * * * *", None, None, "2026-01-01T09:30", None, "none"),
        ("0 * * * *", None, None, "2026-01-01T10:00", "2026-01-01T10:00", "none"),
        ("0 * * * *", None, None, "2026-01-01T10:59", "2026-01-01T10:00", "none"),
        ("0 * * * *", None, None, "2026-01-01T12:10", "2026-01-01T12:00", "few"),
        ("0 * * * *", "2026-01-01T12:00:00Z", None, "2026-01-01T12:10", None, "none"),
        ("* * * * *", None, None, "2026-01-01T12:10", "2026-01-01T12:10", "many"),
        ("* * * * *", None, 600, "2026-01-01T12:10", "2026-01-01T12:10", "few"),
        ("0 * * * *", None, 60, "2026-01-01T12:10", None, "none"),
        ("@every 1h", "2026-01-01T09:20:00Z", None, "2026-01-01T12:30", "2026-01-01T12:20", "few"),
        # On the Chatham Islands the clock went back within an hour; the search from then on begins before that.
        ("TZ=Pacific/Chatham 45 3 * * *", "2026-04-01T14:00:00Z", None, "2026-04-05T00:00", "2026-04-04T15:00", "few"),
        # Not regular: between the last time on Friday and now lies a weekend.
        ("30 6-16/4 * * 1-5", "2026-01-02T14:30:00Z", None, "2026-01-05T08:00", "2026-01-05T06:30", "none"),
        # The estimate goes too far: as upstream has it, such a time is not made up for.
        ("30 6-16/4 * * 1-5", "2026-01-01T14:30:00Z", None, "2026-01-04T08:00", None, "few"),
    ],
)
def test_most_recent_time(
    schedule: str, last: str | None, deadline: int | None, now: str, moment: str | None, missed: str
) -> None:
    found = most_recent_schedule(cron_job(schedule, last, deadline), at(now), parse(schedule))
    assert (found.moment, found.missed) == (at(moment) if moment else None, missed)


@pytest.mark.parametrize(
    ("schedule", "last", "now", "following"),
    [
        ("0 * * * *", None, "2026-01-01T09:30", "2026-01-01T10:00"),
        ("0 * * * *", None, "2026-01-01T10:10", "2026-01-01T11:00"),
        ("0 * * * *", "2026-01-01T10:00:00Z", "2026-01-01T15:10", "2026-01-01T16:00"),
        ("30 6-16/4 * * 1-5", "2026-01-02T14:30:00Z", "2026-01-03T08:00", "2026-01-05T06:30"),
    ],
)
def test_next_time_has_a_margin(schedule: str, last: str | None, now: str, following: str) -> None:
    seconds = seconds_until_next(cron_job(schedule, last), at(now), parse(schedule))
    assert seconds == pytest.approx((at(following) - at(now)).total_seconds() + 0.1)


def test_schedule_without_two_times_is_rejected() -> None:
    never = "59 23 31 2 *"
    with pytest.raises(NeverDue, match="time difference between two schedules is less than 1 second"):
        most_recent_schedule(cron_job(never), at("2026-01-01T12:00"), parse(never))
    assert seconds_until_next(cron_job(never), at("2026-01-01T12:00"), parse(never)) is None
