# SPDX-License-Identifier: Apache-2.0
"""Duration and timestamp library."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Final

from kubeloop.api.cel.check.types import DURATION, INT, STRING, TIMESTAMP
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import method
from kubeloop.api.cel.values import INT_MAX, CelError, Duration, Timestamp
from kubeloop.api.scalars.duration import DurationError, parse_duration
from kubeloop.api.scalars.times import TimeError, parse_time

_OFFSET: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")
_WRITTEN_OFFSET: Final = re.compile(r"[+-][0-9]{2}:[0-9]{2}$")
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OVERFLOW: Final = "timestamp overflow"


def duration_of(text: str) -> Duration:
    """Parse a duration; raises CelError."""
    try:
        return Duration(microseconds=parse_duration(text) // 1000)
    except DurationError as error:
        raise CelError(str(error)) from None


def duration_text(span: timedelta) -> str:
    """Format a duration in seconds, as cel-go does."""
    microseconds = span // _MICROSECOND
    sign, microseconds = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    whole, part = divmod(microseconds, 1_000_000)
    return f"{sign}{whole}{f'.{part:06d}'.rstrip('0') if part else ''}s"


def timestamp_of(text: str) -> Timestamp:
    """Parse a timestamp, keeping its zone; raises CelError."""
    try:
        found = parse_time(text)
    except TimeError as error:
        raise CelError(str(error)) from None
    if offset := _WRITTEN_OFFSET.search(text):
        found = found.astimezone(zone_of(offset[0]))
    return to_timestamp(found)


def timestamp_of_seconds(seconds: int) -> Timestamp:
    """Return the timestamp of seconds since the epoch; raises CelError on overflow."""
    try:
        return to_timestamp(_EPOCH + timedelta(seconds=seconds))
    except OverflowError:
        raise CelError(_OVERFLOW) from None


def timestamp_text(one: datetime) -> str:
    """Format a timestamp in its own zone."""
    text = one.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    zone = one.strftime("%z")
    zone = "Z" if not one.utcoffset() else f"{zone[:3]}:{zone[3:5]}"
    return f"{text}{f'.{one.microsecond:06d}'.rstrip('0') if one.microsecond else ''}{zone}"


def seconds_of(one: datetime) -> int:
    """Return whole seconds since the epoch."""
    return (one - _EPOCH) // _SECOND


def to_timestamp(one: datetime) -> Timestamp:
    """Convert a datetime to a Timestamp."""
    return Timestamp(
        one.year, one.month, one.day, one.hour, one.minute, one.second, one.microsecond, tzinfo=one.tzinfo or UTC
    )


def to_duration(one: timedelta) -> Duration:
    """Convert a timedelta to a Duration; raises CelError on overflow."""
    microseconds = one // _MICROSECOND
    if abs(microseconds) * 1000 > INT_MAX:
        raise CelError("duration overflow")
    return Duration(microseconds=microseconds)


def add(one: Any, other: timedelta) -> Any:
    """Add a duration to a timestamp or duration; raises CelError on overflow."""
    return _reckoned(lambda: _plain(one) + _plain_span(other))


def subtract(one: Any, other: Any) -> Any:
    """Subtract durations or timestamps; raises CelError on overflow."""
    return _reckoned(lambda: _plain(one) - _plain(other))


def _reckoned(reckon: Callable[[], Any]) -> Any:
    try:
        result = reckon()
    except OverflowError:
        raise CelError(_OVERFLOW) from None
    return to_timestamp(result) if isinstance(result, datetime) else to_duration(result)


def _plain(value: Any) -> Any:
    """Return the value in Python's own type: arithmetic on a subclass would call our constructor."""
    if isinstance(value, Timestamp):
        return datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo
        )
    return _plain_span(value)


def _plain_span(value: timedelta) -> timedelta:
    return timedelta(value.days, value.seconds, value.microseconds)


# Parts.


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name, or by an offset such as `-08:00`."""
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda one: one.year,
    "getMonth": lambda one: one.month - 1,
    "getDayOfYear": lambda one: one.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda one: one.day - 1,
    "getDate": lambda one: one.day,
    "getDayOfWeek": lambda one: one.isoweekday() % 7,
    "getHours": lambda one: one.hour,
    "getMinutes": lambda one: one.minute,
    "getSeconds": lambda one: one.second,
    "getMilliseconds": lambda one: one.microsecond // 1000,
}
_OF_SPANS: Final[dict[str, Callable[[timedelta], int]]] = {
    "getHours": lambda one: _towards_zero(one, timedelta(hours=1)),
    "getMinutes": lambda one: _towards_zero(one, timedelta(minutes=1)),
    "getSeconds": lambda one: _towards_zero(one, _SECOND),
    "getMilliseconds": lambda one: _towards_zero(one, timedelta(milliseconds=1)),
}


def _towards_zero(one: timedelta, unit: timedelta) -> int:
    return one // unit if one >= timedelta() else -(-one // unit)


def _accessors(name: str) -> tuple[Overload, ...]:
    part = _PARTS[name]
    overloads = [
        method(f"timestamp_{name}", (TIMESTAMP,), INT, lambda one: part(_plain(one).astimezone(UTC))),
        method(
            f"timestamp_{name}_with_tz",
            (TIMESTAMP, STRING),
            INT,
            lambda one, zone: part(_plain(one).astimezone(zone_of(zone))),
        ),
    ]
    if name in _OF_SPANS:
        overloads.append(method(f"duration_{name}", (DURATION,), INT, _OF_SPANS[name]))
    return tuple(overloads)


FUNCTIONS: Final = {name: _accessors(name) for name in _PARTS}
