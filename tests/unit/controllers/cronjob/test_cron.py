# SPDX-License-Identifier: Apache-2.0
"""Tests of cron schedules by the rules of robfig/cron v3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.api.validation.workloads.cron_format import ScheduleError
from kubeloop.controllers.cronjob.cron import parse


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(spec: str, begin: str, count: int) -> list[str]:
    """The next times, as UTC."""
    schedule, found, now = parse(spec), [], moment(begin)
    for _ in range(count):
        following = schedule.after(now)
        assert following is not None
        found.append(following.strftime("%Y-%m-%d %H:%M:%S"))
        now = following
    return found


@pytest.mark.parametrize(
    ("spec", "begin", "next_time"),
    [
        # Simple ones.
        ("*/15 * * * *", "2012-07-09T14:45", "2012-07-09 15:00:00"),
        ("*/15 * * * *", "2012-07-09T14:59:59", "2012-07-09 15:00:00"),
        ("*/15 * * * *", "2012-07-09T15:00:00.5", "2012-07-09 15:15:00"),
        # From one unit into the next.
        ("20-35/15 * * * *", "2012-07-09T15:45", "2012-07-09 16:20:00"),
        ("15/35 20-23/3 * * *", "2012-07-09T23:51", "2012-07-10 20:15:00"),
        ("0 0 9 Apr-Oct ?", "2012-07-09T23:35", "2012-08-09 00:00:00"),
        ("0 0 */5 Apr,Aug,Oct Mon", "2012-07-09T23:35", "2012-08-01 00:00:00"),
        ("0 0 */5 Oct Mon", "2012-07-09T23:35", "2012-10-01 00:00:00"),
        ("0 0 * Feb Mon", "2012-07-09T23:35", "2013-02-04 00:00:00"),
        ("0 0 * Feb Mon/2", "2012-07-09T23:35", "2013-02-01 00:00:00"),
        # Leap years.
        ("0 0 29 Feb ?", "2012-07-09T23:35", "2016-02-29 00:00:00"),
        # Days of month and of week: one is enough, unless one of them is a star.
        ("0 0 1,15 * Sun", "2012-07-14T00:00", "2012-07-15 00:00:00"),
        ("0 0 1,15 * Sun", "2012-07-15T00:00", "2012-07-22 00:00:00"),
        ("0 0 * * Mon", "2012-07-15T00:00", "2012-07-16 00:00:00"),
        ("0 0 */10 * Sun", "2012-07-09T00:00", "2012-07-11 00:00:00"),
        ("0 0 */1 * Sun", "2012-07-09T00:00", "2012-07-15 00:00:00"),
        ("0 0 1,15 * *", "2012-07-09T00:00", "2012-07-15 00:00:00"),
        # Descriptors.
        ("@hourly", "2012-07-09T14:45", "2012-07-09 15:00:00"),
        ("@daily", "2012-07-09T14:45", "2012-07-10 00:00:00"),
        ("@midnight", "2012-07-09T14:45", "2012-07-10 00:00:00"),
        ("@weekly", "2012-07-09T14:45", "2012-07-15 00:00:00"),
        ("@monthly", "2012-07-09T14:45", "2012-08-01 00:00:00"),
        ("@yearly", "2012-07-09T14:45", "2013-01-01 00:00:00"),
        ("@annually", "2012-07-09T14:45", "2013-01-01 00:00:00"),
        ("@every 1h30m", "2012-07-09T14:45:12.9", "2012-07-09 16:15:12"),
        ("@every 10ms", "2012-07-09T14:45:12.9", "2012-07-09 14:45:13"),
        ("@every 2.9s", "2012-07-09T14:45:12", "2012-07-09 14:45:14"),
        # Zones.
        ("TZ=America/New_York 0 9 * * *", "2012-07-09T14:45", "2012-07-10 13:00:00"),
        ("CRON_TZ=Asia/Tokyo  30 04 * * *", "2012-07-09T14:45", "2012-07-09 19:30:00"),
        ("TZ= 0 9 * * *", "2012-07-09T14:45", "2012-07-10 09:00:00"),
        ("TZ=Asia/Kolkata @daily", "2012-07-09T14:45", "2012-07-09 18:30:00"),
    ],
)
def test_next_time(spec: str, begin: str, next_time: str) -> None:
    assert times(spec, begin, 1) == [next_time]


@pytest.mark.parametrize("spec", ["0 0 31 Feb ?", "0 0 31 4 *", "0 0 30 2 ?"])
def test_schedule_that_never_fires(spec: str) -> None:
    assert parse(spec).after(moment("2026-01-01T00:00")) is None


def test_skipped_daylight_saving_hour_is_not_made_up() -> None:
    assert times("TZ=America/New_York 30 2 * * *", "2026-03-07T00:00", 3) == [
        "2026-03-07 07:30:00",
        "2026-03-09 06:30:00",
        "2026-03-10 06:30:00",
    ]


def test_repeated_daylight_saving_hour_fires_twice() -> None:
    assert times("TZ=America/New_York 30 1 * * *", "2026-10-31T12:00", 3) == [
        "2026-11-01 05:30:00",
        "2026-11-01 06:30:00",
        "2026-11-02 06:30:00",
    ]


def test_hourly_schedule_continues_through_clock_changes() -> None:
    assert times("TZ=Europe/Berlin 0 * * * *", "2026-03-28T23:59", 4) == [
        "2026-03-29 00:00:00",
        "2026-03-29 01:00:00",
        "2026-03-29 02:00:00",
        "2026-03-29 03:00:00",
    ]


def test_day_without_midnight_starts_an_hour_later() -> None:
    """Sao Paulo went from midnight to one o'clock. What is due at midnight is not due on that day."""
    assert times("TZ=America/Sao_Paulo 0 1 4 11 *", "2018-11-01T00:00", 1) == ["2018-11-04 03:00:00"]
    assert times("TZ=America/Sao_Paulo 0 0 * * *", "2018-11-03T12:00", 1) == ["2018-11-05 02:00:00"]


def test_half_hour_clock_changes_are_handled() -> None:
    """Lord Howe Island goes back from two o'clock to half past one."""
    assert times("TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T12:00", 3) == [
        "2026-04-04 14:45:00",
        "2026-04-04 15:15:00",
        "2026-04-05 15:15:00",
    ]


def test_the_first_half_of_an_hour_is_missed_after_a_half_hour_change() -> None:
    """On Lord Howe Island, 2:00 is at 15:30 UTC on the day of the change. The search has passed the change in whole
    hours by then, from 14:00 to 15:00 and 16:00, and reaches that hour at 2:30.
    """
    assert times("TZ=Australia/Lord_Howe 0 2 * * *", "2026-04-03T15:00", 1) == ["2026-04-05 15:30:00"]
    assert times("TZ=Australia/Lord_Howe 45 2 * * *", "2026-04-03T16:00", 1) == ["2026-04-04 16:15:00"]


def test_clock_change_within_an_hour_can_fire_an_hour_early() -> None:
    """On the Chatham Islands, 3:45 is 2:45 on the day of the change. Upstream's search has found its hour by then,
    searches the minute, and does not check the hour again.
    """
    assert times("TZ=Pacific/Chatham 45 3 * * *", "2026-04-03T14:00", 2) == [
        "2026-04-04 14:00:00",
        "2026-04-04 15:00:00",
    ]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("@nonsense", "unrecognized descriptor: @nonsense"),
        ("TZ=Nowhere/City * * * * *", "provided bad location Nowhere/City: unknown time zone Nowhere/City"),
    ],
)
def test_invalid_schedule_reports_upstreams_message(spec: str, problem: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(spec)
    assert str(caught.value) == problem


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")  # change at full hours, by whole hours, or never
HALF_HOUR_ZONE = "Australia/Lord_Howe"  # changes by half an hour
ODD_MINUTE_ZONE = "Pacific/Chatham"  # changes at a quarter to the hour
CHANGES = (
    "2026-03-06T00:00",
    "2026-03-27T12:00",
    "2026-04-03T12:00",
    "2026-09-25T00:00",
    "2026-10-02T12:00",
    "2026-10-24T00:00",
)


@st.composite
def minutes_and_hours(draw: st.DrawFn) -> tuple[str, set[int], set[int]]:
    minutes = draw(st.sets(st.integers(0, 59), min_size=1, max_size=4))
    hours = draw(st.sets(st.integers(0, 23), min_size=1, max_size=4))
    return f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *", minutes, hours


@settings(max_examples=60, deadline=None)
@given(minutes_and_hours(), st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(0, 3000))
def test_schedule_fires_at_every_matching_wall_clock_minute(
    fields: tuple[str, set[int], set[int]], zone: str, begin: str, later: int
) -> None:
    """Around changes of the clock as on any other day."""
    spec, minutes, hours = fields
    now = moment(begin) + timedelta(minutes=later)
    wall = ZoneInfo(zone)
    candidate = now
    while True:
        candidate += timedelta(minutes=1)
        local = candidate.astimezone(wall)
        if local.minute in minutes and local.hour in hours:
            break
    assert parse(f"TZ={zone} {spec}").after(now) == candidate


def first_reached(now: datetime, zone: str, minutes: set[int], hours: set[int]) -> datetime:
    """Return the first due minute that robfig/cron's SpecSchedule.Next reaches on a schedule of every day.

    A search that begins right after a change of the clock can reach a minute that has passed; the next beginning counts
    then. Upstream returns the passed minute.
    """
    begin = now
    while (found := _reached(begin, ZoneInfo(zone), minutes, hours)) <= now:
        begin += timedelta(minutes=1)
    return found


def _reached(now: datetime, wall: ZoneInfo, minutes: set[int], hours: set[int]) -> datetime:
    """Step in whole hours until the hour fits, then in minutes until the minute fits or the hour is full.

    The hour is looked at again only in the latter case. The first step in hours begins at a full hour; after a change
    by half an hour the next ones arrive at half past.
    """
    found, aligned = now, False
    while True:
        local = found.astimezone(wall)
        if local.hour not in hours:
            begin = found if aligned else local.replace(minute=0, fold=0).astimezone(UTC)
            found, aligned = begin + timedelta(hours=1), True
        elif local.minute not in minutes:
            found, aligned = _minute_reached(found, wall, minutes), True
            if found.astimezone(wall).minute in minutes - {0}:
                return found
        elif found == now:
            found, aligned = found + timedelta(minutes=1), True
        else:
            return found


def _minute_reached(begin: datetime, wall: ZoneInfo, minutes: set[int]) -> datetime:
    found = begin + timedelta(minutes=1)
    while found.astimezone(wall).minute not in minutes | {0}:
        found += timedelta(minutes=1)
    return found


@settings(max_examples=60, deadline=None)
@given(
    minutes_and_hours(),
    st.sampled_from((*ZONES, HALF_HOUR_ZONE, ODD_MINUTE_ZONE)),
    st.sampled_from(CHANGES),
    st.integers(0, 3000),
)
@example(fields=("0 2 * * *", {0}, {2}), zone=HALF_HOUR_ZONE, begin="2026-04-03T12:00", later=180)
@example(fields=("45 3 * * *", {45}, {3}), zone=ODD_MINUTE_ZONE, begin="2026-04-03T12:00", later=120)
def test_schedule_fires_at_the_first_minute_of_upstream(
    fields: tuple[str, set[int], set[int]], zone: str, begin: str, later: int
) -> None:
    spec, minutes, hours = fields
    now = moment(begin) + timedelta(minutes=later)
    assert parse(f"TZ={zone} {spec}").after(now) == first_reached(now, zone, minutes, hours)
