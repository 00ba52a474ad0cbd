# SPDX-License-Identifier: Apache-2.0
"""JSON values as rules see them: times, bytes and numbers by their schema, lists that are sets or maps."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from kubeloop.api.cel.library.times import duration_of, timestamp_of, to_duration, to_timestamp
from kubeloop.api.cel.values import INT_MAX, CelError, MapList, SetList
from kubeloop.api.structural.cel.declarations import CelDeclaration

_ZONE: Final = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
_WORDED: Final = re.compile(r"(?i:(\d{1,9})\s*(micro|milli|us|µs|ms|s|m|h|d|w)[a-z]*)")
_UNITS: Final = {
    **dict.fromkeys(("micro", "us", "µs"), timedelta(microseconds=1)),
    **dict.fromkeys(("milli", "ms"), timedelta(milliseconds=1)),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def convert_value(value: Any, declared: CelDeclaration) -> Any:
    """Convert the value of a place; an unaffected value is returned unchanged. Raises CelError."""
    if value is None or not declared.is_converted:
        return value
    if isinstance(value, dict):
        return _object(value, declared)
    if isinstance(value, list):
        return _list(value, declared)
    if isinstance(value, str):
        return _FORMATS.get(declared.schema.get("format") or "", _as_it_is)(value)
    return _number(value, declared)


def _object(value: dict[str, Any], declared: CelDeclaration) -> dict[str, Any]:
    if declared.element is not None:
        return {key: convert_value(held, declared.element) for key, held in value.items()}
    changed = dict(value)
    for key, inner in declared.properties.items():
        if inner.is_converted and key in value:
            changed[key] = convert_value(value[key], inner)
    return changed


def _list(value: list[Any], declared: CelDeclaration) -> Any:
    element = declared.element
    values = [convert_value(one, element) for one in value] if element is not None and element.is_converted else value
    match declared.schema.get("x-kubernetes-list-type"):
        case "set":
            return SetList(values)
        case "map":
            keyed = MapList(values)
            keyed.keys = tuple(declared.schema.get("x-kubernetes-list-map-keys") or ())
            return keyed
    return values


def _number(value: Any, declared: CelDeclaration) -> Any:
    if isinstance(value, bool):
        return value
    if declared.type.kind == "double":
        try:
            return float(value)
        except OverflowError:
            raise CelError("invalid data, expected float") from None
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if not -INT_MAX - 1 <= whole <= INT_MAX:
        raise CelError("invalid data, expected int, got float64")
    return whole


def _as_it_is(text: str) -> str:
    return text


def _moment(text: str) -> Any:
    """Parse a timestamp in any case, with a space for the T or without a zone, all of which the format allows."""
    written = text.upper().replace(" ", "T")
    try:
        return timestamp_of(written if _ZONE.search(written) else f"{written}Z")
    except CelError as error:
        raise CelError(f"Invalid date-time formatted string {text}: {error}") from None


def _day(text: str) -> Any:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise CelError(f"Invalid date formatted string {text}: {error}") from None
    return to_timestamp(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _duration(text: str) -> Any:
    """Parse a duration in Go's format, or a number and a unit in words."""
    try:
        return duration_of(text)
    except CelError as error:
        if found := _WORDED.fullmatch(text):
            return to_duration(int(found[1]) * _UNITS[found[2].lower()])
        raise CelError(f"Invalid duration {text}: {error}") from None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CelError(f"Invalid byte formatted string {text}: {error}") from None


_FORMATS: Final[Mapping[str, Callable[[str], Any]]] = {
    "date": _day,
    "date-time": _moment,
    "duration": _duration,
    "byte": _bytes,
}
