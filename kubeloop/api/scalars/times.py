# SPDX-License-Identifier: Apache-2.0
"""Timestamps of the API (RFC 3339, always UTC), parsed with Go's rules, and ages as kubectl shows them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from kubeloop.api.scalars.duration import quote_for_time

_CANONICAL: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_CANONICAL_MICRO: Final = re.compile(_CANONICAL.pattern.replace("Z", "[.][0-9]{6}Z"))
_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"

# Pattern of each element of a layout, and its range for Go's error.
_FOUR: Final = re.compile("[0-9]{4}")
_TWO: Final = re.compile("[0-9]{2}")
_ONE_OR_TWO: Final = re.compile("[0-9]{1,2}")
_FRACTION: Final = re.compile("(?:[.,]([0-9]+))?")
_SIX_DIGITS: Final = re.compile("[.,]([0-9]{6})")
_ZONE: Final = re.compile("Z|([+-])([0-9]{2}):([0-9]{2})")
_ELEMENTS: Final = (
    ("", "2006", _FOUR, "year", 0, 9999),
    ("-", "01", _TWO, "month", 1, 12),
    ("-", "02", _TWO, "", 0, 99),
    ("T", "15", _ONE_OR_TWO, "hour", 0, 23),
    (":", "04", _TWO, "minute", 0, 59),
    (":", "05", _TWO, "second", 0, 59),
)


class TimeError(ValueError):
    """Raised for a text that is no timestamp; the message is Go's."""


class _Reader:
    """Parses a timestamp from its beginning and raises Go's errors."""

    def __init__(self, text: str, layout: str) -> None:
        self._text = text
        self._layout = layout
        self.rest = text

    def take(self, pattern: re.Pattern[str], element: str) -> re.Match[str]:
        found = pattern.match(self.rest)
        if found is None:
            raise self.mismatch(element)
        self.rest = self.rest[found.end() :]
        return found

    def skip(self, literal: str) -> None:
        if not self.rest.startswith(literal):
            raise self.mismatch(literal)
        self.rest = self.rest[len(literal) :]

    def mismatch(self, element: str) -> TimeError:
        quoted = tuple(map(quote_for_time, (self._text, self._layout, self.rest, element)))
        return TimeError("parsing time {} as {}: cannot parse {} as {}".format(*quoted))

    def problem(self, what: str) -> TimeError:
        return TimeError(f"parsing time {quote_for_time(self._text)}: {what}")


def parse_time(text: str) -> datetime:
    """Parse a metav1.Time into UTC; fractions of a second are kept to the microsecond."""
    if _CANONICAL.fullmatch(text):
        try:
            return datetime.fromisoformat(text)  # fastest; controllers parse times constantly
        except ValueError:
            pass  # the slow parser reports the error
    return _parse(text, _LAYOUT)


def parse_micro_time(text: str) -> datetime:
    """Parse a metav1.MicroTime, which must have six digits after the second, into UTC."""
    if _CANONICAL_MICRO.fullmatch(text) and _is_real(text):
        return datetime.fromisoformat(text)
    return _parse(text, _MICRO_LAYOUT)


def _parse(text: str, layout: str) -> datetime:
    reader = _Reader(text, layout)
    numbers: list[int] = []
    for literal, element, pattern, name, low, high in _ELEMENTS:
        reader.skip(literal)
        number = int(reader.take(pattern, element)[0])
        if not low <= number <= high:
            raise reader.problem(f"{name} out of range")
        numbers.append(number)
    if layout is _MICRO_LAYOUT:
        fraction = reader.take(_SIX_DIGITS, ".000000")[1]
    else:
        fraction = reader.take(_FRACTION, "05")[1]
    offset = _offset(reader)
    if reader.rest:
        raise reader.problem(f"extra text: {quote_for_time(reader.rest)}")
    year, month, day, hour, minute, second = numbers
    microsecond = int((fraction or "")[:6].ljust(6, "0"))
    try:
        local = datetime(year, month, day, hour, minute, second, microsecond, UTC)
    except ValueError:
        raise reader.problem("day out of range") from None
    try:
        return local - offset
    except OverflowError:
        raise reader.problem("year out of range") from None


def _offset(reader: _Reader) -> timedelta:
    zone = reader.take(_ZONE, "Z07:00")
    if zone[0] == "Z":
        return timedelta()
    hours, minutes = int(zone[2]), int(zone[3])
    if hours > 24:
        raise reader.problem("time zone offset hour out of range")
    if minutes > 60:
        raise reader.problem("time zone offset minute out of range")
    offset = timedelta(hours=hours, minutes=minutes)
    return offset if zone[1] == "+" else -offset


@lru_cache(maxsize=256)
def format_time(moment: datetime) -> str:
    """Format a metav1.Time: whole seconds, the fraction is cut off."""
    return _text_of(moment, "seconds")


def format_micro_time(moment: datetime) -> str:
    """Format a metav1.MicroTime: six digits after the second."""
    return _text_of(moment, "microseconds")


def _text_of(moment: datetime, precision: str) -> str:
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec=precision).removesuffix('+00:00')}Z"


def normalize_time(text: str) -> str:
    """Return a metav1.Time in canonical form."""
    if _CANONICAL.fullmatch(text) and _is_real(text):
        return text
    return format_time(parse_time(text))


def normalize_micro_time(text: str) -> str:
    """Return a metav1.MicroTime in canonical form."""
    if _CANONICAL_MICRO.fullmatch(text) and _is_real(text):
        return text
    return format_micro_time(parse_micro_time(text))


def _is_real(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def human_age(since: str | None, now: datetime) -> str:
    """Return the age of a timestamp as tables show it."""
    return "<unknown>" if not since else human_duration((now - parse_time(since)).total_seconds())


def human_duration(seconds: float) -> str:
    """Format a duration with two or three significant figures: `5s`, `2m3s`, `5d`, `3y`."""
    whole = int(seconds)
    if whole < -1:
        # Tolerates a clock that is slightly behind.
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two_units(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two_units(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"


def short_human_duration(seconds: float) -> str:
    """Format a duration in its largest unit only."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 60:
        return f"{max(whole, 0)}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h"
    days = whole // 86400
    return f"{days}d" if days < 365 else f"{days // 365}y"
