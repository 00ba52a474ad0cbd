# SPDX-License-Identifier: Apache-2.0
"""Moments read with Go's rules, print in UTC, and age as kubectl shows."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.scalars import times
from kubeloop.api.scalars.times import TimeError


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00.999Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00,5Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00.1234567891234Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00+02:00", "2026-01-31T07:30:00Z"),
        ("2026-01-31T09:30:00-23:59", "2026-02-01T09:29:00Z"),
        ("2026-01-31T9:30:00Z", "2026-01-31T09:30:00Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
    ],
)
def test_a_time_is_normalized_to_whole_seconds_in_utc(text: str, normal: str) -> None:
    assert times.normalize_time(text) == normal


def test_a_micro_time_has_six_digits() -> None:
    assert times.normalize_micro_time("2026-01-31T09:30:00.123456+01:00") == "2026-01-31T08:30:00.123456Z"


AS_TIME = 'as "2006-01-02T15:04:05Z07:00"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yesterday", f'parsing time "yesterday" {AS_TIME}: cannot parse "yesterday" as "2006"'),
        ("", f'parsing time "" {AS_TIME}: cannot parse "" as "2006"'),
        ("2026-01-31 09:30:00Z", f'parsing time "2026-01-31 09:30:00Z" {AS_TIME}: cannot parse " 09:30:00Z" as "T"'),
        ("2026-1-31T09:30:00Z", f'parsing time "2026-1-31T09:30:00Z" {AS_TIME}: cannot parse "1-31T09:30:00Z" as "01"'),
        ("2026-01-31T09:30:00", f'parsing time "2026-01-31T09:30:00" {AS_TIME}: cannot parse "" as "Z07:00"'),
        ("2026-13-31T09:30:00Z", 'parsing time "2026-13-31T09:30:00Z": month out of range'),
        ("2026-02-30T09:30:00Z", 'parsing time "2026-02-30T09:30:00Z": day out of range'),
        ("2026-01-31T24:30:00Z", 'parsing time "2026-01-31T24:30:00Z": hour out of range'),
        ("2026-01-31T09:60:00Z", 'parsing time "2026-01-31T09:60:00Z": minute out of range'),
        ("2026-01-31T09:30:60Z", 'parsing time "2026-01-31T09:30:60Z": second out of range'),
        (
            "2026-01-31T09:30:00+25:00",
            'parsing time "2026-01-31T09:30:00+25:00": time zone offset hour out of range',
        ),
        (
            "2026-01-31T09:30:00+01:61",
            'parsing time "2026-01-31T09:30:00+01:61": time zone offset minute out of range',
        ),
        ("2026-01-31T09:30:00Zx", 'parsing time "2026-01-31T09:30:00Zx": extra text: "x"'),
    ],
)
def test_invalid_time_reports_gos_message(text: str, message: str) -> None:
    with pytest.raises(TimeError) as caught:
        times.normalize_time(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ("2026-01-31T09:30:00Z", 'cannot parse "Z" as ".000000"'),
        ("2026-01-31T09:30:00.123456789Z", 'cannot parse "789Z" as "Z07:00"'),
    ],
)
def test_a_micro_time_must_have_exactly_six_digits(text: str, tail: str) -> None:
    with pytest.raises(TimeError) as caught:
        times.normalize_micro_time(text)
    assert str(caught.value) == f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": {tail}'


moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)).map(
    lambda naive: naive.replace(tzinfo=UTC)
)


@given(moments, st.integers(-23 * 60, 23 * 60))
def test_time_round_trips_in_any_zone(moment: datetime, offset: int) -> None:
    elsewhere = moment.astimezone(timezone(timedelta(minutes=offset)))
    assert times.parse_micro_time(times.format_micro_time(elsewhere)) == moment
    assert times.parse_time(elsewhere.isoformat()) == moment
    assert times.parse_time(times.format_time(moment)) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (123, "2m3s"),
        (10 * 60 + 5, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400 + 86400, "8y"),
    ],
)
def test_ages_have_two_or_three_figures(seconds: int, age: str) -> None:
    assert times.human_duration(seconds) == age


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-2, "<invalid>"), (-1, "0s"), (59, "59s"), (61, "1m"), (3601, "1h"), (86400, "1d"), (400 * 86400, "1y")],
)
def test_short_ages_have_one_unit(seconds: int, age: str) -> None:
    assert times.short_human_duration(seconds) == age


def test_age_of_a_missing_time_is_unknown() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert times.human_age(None, now) == "<unknown>"
    assert times.human_age("2025-12-31T23:59:00Z", now) == "60s"
