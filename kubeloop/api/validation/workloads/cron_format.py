# SPDX-License-Identifier: Apache-2.0
"""Validation of cron schedules and time zones, with the messages of upstream's parser."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from kubeloop.api.meta.field_path import quote
from kubeloop.api.scalars.duration import DurationError, parse_duration

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Lowest and highest number of each field, and the names for numbers.
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY: Final = "@every "
_is_zone_part: Final = re.compile("[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}").fullmatch


class ScheduleError(ValueError):
    """Raised for a malformed schedule; the message is shown to clients."""


def schedule_error(schedule: str) -> str:
    """Return the reason why a schedule is malformed, or an empty string."""
    try:
        _check_schedule(schedule)
    except ScheduleError as problem:
        return str(problem)
    return ""


def _check_schedule(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, space, rest = schedule.partition("=")[2].partition(" ")
        if not space:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        if not is_time_zone(zone):
            raise ScheduleError(f"provided bad location {zone}: unknown time zone {zone}")
        schedule = rest.strip()
    if schedule.startswith("@"):
        _check_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        listed = " ".join(fields)
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{listed}]")
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for expression in filter(None, field.split(",")):
            _check_range(expression, low, high, names)


def _check_descriptor(schedule: str) -> None:
    if schedule in _DESCRIPTORS:
        return
    if not schedule.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {schedule}")
    try:
        parse_duration(schedule.removeprefix(_EVERY))
    except DurationError as problem:
        raise ScheduleError(f"failed to parse duration {schedule}: {problem}") from problem


def _check_range(expression: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = expression.split("/")
    first, *rest = span.split("-")
    start, end = low, high
    if first not in ("*", "?"):
        start = end = _number(first, names)
        if len(rest) > 1:
            raise ScheduleError(f"too many hyphens: {expression}")
        if rest:
            end = _number(rest[0], names)
    step = 1
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {expression}")
    if steps:
        step = _number(steps[0], {})
        end = end if rest else high
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {expression}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {expression}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {expression}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: value out of range")
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


def time_zone_errors(zone: str) -> list[str]:
    """Return the problems of a time zone's name."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    if not all(part not in (".", "..") and _is_zone_part(part) for part in zone.split("/")):
        return [f"unknown time zone {zone}"]
    if zone.lower() == "local":
        problem = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [problem] if zone == "Local" else [problem, f"unknown time zone {zone}"]
    return [] if is_time_zone(zone) else [f"unknown time zone {zone}"]


@lru_cache(256)
def is_time_zone(zone: str) -> bool:
    """Return True if the system's time zone database has the zone."""
    try:
        ZoneInfo(zone or "UTC")
    except (OSError, ValueError, KeyError):
        return zone in ("UTC", "Local")
    return True
