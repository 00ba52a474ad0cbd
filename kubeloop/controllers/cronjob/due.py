# SPDX-License-Identifier: Apache-2.0
"""Finds the due time of a CronJob, the number of missed times, and the next time. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from kubeloop.api.generated.batch_v1 import CronJob
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.cronjob.cron import Schedule

TOO_MANY_MISSED = 100  # missed times above which clock skew is suspected
NEXT_SCHEDULE_DELTA = 0.1  # seconds after the scheduled time at which the controller syncs: clocks differ

Missed = Literal["none", "few", "many"]


class NeverDue(ValueError):
    """Raised for a valid schedule that has no two times; the message is upstream's."""


class RecentSchedule(NamedTuple):
    """The most recent scheduled time."""

    since: datetime  # start of the searched period
    moment: datetime | None  # None if there was none so far
    missed: Missed


def most_recent_schedule(cron_job: CronJob, now: datetime, schedule: Schedule) -> RecentSchedule:
    """Return the most recent time within the starting deadline."""
    deadline = cron_job.spec.starting_deadline_seconds
    begin = _last(cron_job)
    return _recent(begin if deadline is None else max(begin, now - timedelta(seconds=deadline)), now, schedule)


def seconds_until_next(cron_job: CronJob, now: datetime, schedule: Schedule) -> float | None:
    """Return the seconds until the next sync; None if the CronJob is never due."""
    try:
        recent = _recent(_last(cron_job), now, schedule)
    except NeverDue:
        begin = now
    else:
        begin = recent.moment or (recent.since if recent.missed == "none" else now)
    following = schedule.after(begin)
    return None if following is None else (following - now).total_seconds() + NEXT_SCHEDULE_DELTA


def _last(cron_job: CronJob) -> datetime:
    """Return the last schedule time, or else the creation time."""
    stamp = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    assert stamp is not None  # set by the server
    return parse_time(stamp)


def _recent(begin: datetime, now: datetime, schedule: Schedule) -> RecentSchedule:
    first = schedule.after(begin)
    if first is not None and now < first:
        return RecentSchedule(begin, None, "none")
    second = schedule.after(first) if first is not None else None
    if first is not None and second is not None and now < second:
        return RecentSchedule(begin, first, "none")
    period = round((second - first).total_seconds()) if first is not None and second is not None else 0
    if first is None or period < 1:
        raise NeverDue("time difference between two schedules is less than 1 second")
    # An estimate for irregular schedules: so the search begins one period earlier.
    missed = int((now - first).total_seconds()) // period + 1
    latest: datetime | None = None
    candidate = schedule.after(first + timedelta(seconds=(missed - 2) * period))
    while candidate is not None and candidate <= now:
        latest, candidate = candidate, schedule.after(candidate)
    return RecentSchedule(begin, latest, "many" if missed > TOO_MANY_MISSED else "few")
