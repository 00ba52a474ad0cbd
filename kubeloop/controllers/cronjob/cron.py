# SPDX-License-Identifier: Apache-2.0
"""Cron schedules by the rules of robfig/cron v3, as Kubernetes: fields, names, steps, `@every`, zones. Pure.

Hours and minutes follow elapsed time. So a time within the hour that a change to daylight saving time skips does not
occur that day, and a time within the repeated hour occurs twice. Where a zone changes its clock by half an hour, a time
in the first half of an hour can be missed on that day: the search steps in whole hours. Where it changes its clock
within an hour, a time can be due an hour early: the search for a minute does not check the hour again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from kubeloop.api.scalars.duration import SECOND, parse_duration
from kubeloop.api.validation.workloads.cron_format import ScheduleError, is_time_zone, schedule_error

_YEARS: Final = 5  # a schedule without a time for this many years never matches
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_WEEKDAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "


class Schedule(Protocol):
    """Schedule of recurring times."""

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment; None if there is none for years."""


def parse(text: str) -> Schedule:
    """Parse a schedule; raises `ScheduleError` with upstream's message."""
    problem = schedule_error(text) if text else "empty spec string"
    if problem:
        raise ScheduleError(problem)
    return _parsed(text)


@lru_cache(1024)
def _parsed(text: str) -> Schedule:
    zone: tzinfo = UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, _, text = text.partition("=")[2].partition(" ")
        zone, text = zone_of(name), text.strip()
    if text.startswith(_EVERY):
        return ConstantDelaySchedule(timedelta(seconds=max(1, parse_duration(text.removeprefix(_EVERY)) // SECOND)))
    minute, hour, day, month, weekday = _DESCRIPTORS.get(text, text).split()
    return SpecSchedule(
        minutes=_field(minute, 0, 59, {}),
        hours=_field(hour, 0, 23, {}),
        days=_field(day, 1, 31, {}),
        months=_field(month, 1, 12, _MONTHS),
        weekdays=_field(weekday, 0, 6, _WEEKDAYS),
        zone=zone,
    )


def zone_of(name: str) -> tzinfo:
    """Return a time zone by name; raises `ScheduleError` for an unknown one."""
    if not is_time_zone(name):
        raise ScheduleError(f"unknown time zone {name}")
    return UTC if name in ("", "UTC", "Local") else ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class ConstantDelaySchedule:
    """Schedule with a constant period."""

    period: timedelta

    def after(self, moment: datetime) -> datetime:
        """Return the moment, in whole seconds, plus the period."""
        return moment.replace(microsecond=0) + self.period


@dataclass(frozen=True, slots=True)
class CronField:
    """Values of one field; if it is a star, the other day field decides about days."""

    values: frozenset[int]
    is_star: bool

    def __contains__(self, value: int) -> bool:
        return value in self.values

    def steps_from(self, value: int, beyond: int) -> int:
        """Return the distance to the next value, or to the end of the range."""
        return min((one - value for one in self.values if one >= value), default=beyond - value)


@dataclass(frozen=True, slots=True)
class SpecSchedule:
    """Schedule by calendar fields in a time zone."""

    minutes: CronField
    hours: CronField
    days: CronField
    months: CronField
    weekdays: CronField
    zone: tzinfo

    def after(self, moment: datetime) -> datetime | None:
        """Return the first matching time after a moment; None if there is none for years.

        The search goes back to the beginning of an hour or a day first. Where the clock changes within an hour, the
        time found from there may be past; the search then begins again one minute later. Upstream's SpecSchedule.Next
        returns the past time, and its callers loop forever.
        """
        begin = moment
        while (found := self._found_from(begin)) is not None and found <= moment:
            begin += _MINUTE
        return found

    def _found_from(self, begin: datetime) -> datetime | None:
        search = _Search(self, begin)
        while not search.is_over:
            if search.to_month() and search.to_day() and search.to_hour() and search.to_minute() and search.to_second():
                return search.moment
        return None

    def has_day(self, local: datetime) -> bool:
        """Match day of month and day of week: both if one of them is a star, else either."""
        by_month, by_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        if self.days.is_star or self.weekdays.is_star:
            return by_month and by_week
        return by_month or by_week


class _Search:
    """Advances a time until it matches, from months down to seconds.

    A `to_…` method returns False after passing the end of a larger unit, which must then be matched again.
    """

    def __init__(self, calendar: SpecSchedule, begin: datetime) -> None:
        self._calendar = calendar
        self._zone = calendar.zone
        self._aligned = False  # True if the smaller units are reset
        self._set(begin.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1))
        self._last_year = self._local.year + _YEARS

    @property
    def is_over(self) -> bool:
        return self._local.year > self._last_year

    def to_month(self) -> bool:
        while self._local.month not in self._calendar.months:
            local = self._local
            self._align(datetime(local.year, local.month, 1))
            local = self._local
            self._set_local(_wall(local.year + local.month // 12, local.month % 12 + 1, local))
            if self._local.month == 1:
                return False
        return True

    def to_day(self) -> bool:
        while not self._calendar.has_day(self._local):
            self._align(_naive(self._local).replace(hour=0, minute=0, second=0))
            self._set_local(_naive(self._local) + _DAY)
            hour = self._local.hour
            if hour:  # midnight does not exist on the day of an offset change: go to the nearest hour
                self._set(self.moment + (24 - hour if hour > 12 else -hour) * _HOUR)
            if self._local.day == 1:
                return False
        return True

    def to_hour(self) -> bool:
        while self._local.hour not in self._calendar.hours:
            self._align(_naive(self._local).replace(minute=0, second=0))
            self._forward(_HOUR, self._calendar.hours.steps_from(self._local.hour, 24))
            if self._local.hour == 0:
                return False
        return True

    def to_minute(self) -> bool:
        while self._local.minute not in self._calendar.minutes:
            if not self._aligned:
                self._aligned = True
                self._set(self.moment.replace(second=0))
            self._forward(_MINUTE, self._calendar.minutes.steps_from(self._local.minute, 60))
            if self._local.minute == 0:
                return False
        return True

    def to_second(self) -> bool:
        """Advance to the beginning of a minute, since all times are whole minutes."""
        if self._local.second == 0:
            return True
        self._aligned = True
        self._set(self.moment + timedelta(seconds=60 - self._local.second))
        return False

    def _align(self, local: datetime) -> None:
        """Reset the smaller units when a larger one changes for the first time."""
        if not self._aligned:
            self._aligned = True
            self._set_local(local)

    def _forward(self, unit: timedelta, count: int) -> None:
        """Advance by several units if the UTC offset stays the same; otherwise by one, so that no time is skipped."""
        offset = self._local.utcoffset()
        ahead = self.moment + count * unit
        self._set(ahead if ahead.astimezone(self._zone).utcoffset() == offset else self.moment + unit)

    def _set(self, moment: datetime) -> None:
        self.moment = moment
        self._local = moment.astimezone(self._zone)

    def _set_local(self, local: datetime) -> None:
        """Set the local wall time; a time that does not exist is resolved as Go does."""
        as_utc = local.replace(tzinfo=UTC)
        guess = as_utc - _offset_at(as_utc, self._zone)
        self._set(as_utc - _offset_at(guess, self._zone))


def _offset_at(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _naive(local: datetime) -> datetime:
    return local.replace(tzinfo=None)


def _wall(year: int, month: int, local: datetime) -> datetime:
    """Return the same day and time in another month; an excess day runs into the next month."""
    return datetime(year, month, 1, local.hour, local.minute, local.second) + timedelta(days=local.day - 1)


def _field(text: str, low: int, high: int, names: Mapping[str, int]) -> CronField:
    values: set[int] = set()
    is_star = False
    for expression in filter(None, text.split(",")):
        span, _, step = expression.partition("/")
        first, dash, last = span.partition("-")
        stride = int(step or "1")
        if first in ("*", "?"):
            start, end = low, high
            is_star = is_star or stride == 1
        else:
            start = _number(first, names)
            end = _number(last, names) if dash else high if step else start
        values.update(range(start, end + 1, stride))
    return CronField(frozenset(values), is_star)


def _number(text: str, names: Mapping[str, int]) -> int:
    known = names.get(text.lower())
    return int(text) if known is None else known
