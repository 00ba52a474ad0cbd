"""JSON values as rules see them: times, bytes and numbers by their schema, lists that are sets or maps."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from kubeloop.api.cel.library.times import duration_of, moment, timestamp_of
from kubeloop.api.cel.values import CelError, MapList, SetList
from kubeloop.api.structural.declared import Declared


def converted(value: Any, declared: Declared) -> Any:
    """The value of a place; what needs no change is handed on as it is. Raises CelError."""
    if value is None or not declared.is_converted:
        return value
    if isinstance(value, dict):
        return _object(value, declared)
    if isinstance(value, list):
        return _list(value, declared)
    if isinstance(value, str):
        return _FORMATS.get(declared.schema.get("format") or "", _as_it_is)(value)
    return _number(value, declared)


def _object(value: dict[str, Any], declared: Declared) -> dict[str, Any]:
    if declared.element is not None:
        return {key: converted(held, declared.element) for key, held in value.items()}
    properties = declared.properties
    return {key: converted(held, properties[key]) if key in properties else held for key, held in value.items()}


def _list(value: list[Any], declared: Declared) -> Any:
    element = declared.element
    values = [converted(one, element) for one in value] if element is not None and element.is_converted else value
    match declared.schema.get("x-kubernetes-list-type"):
        case "set":
            return SetList(values)
        case "map":
            keyed = MapList(values)
            keyed.keys = tuple(declared.schema.get("x-kubernetes-list-map-keys") or ())
            return keyed
    return values


def _number(value: Any, declared: Declared) -> Any:
    if isinstance(value, bool):
        return value
    if declared.type.kind == "double":
        return float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_it_is(text: str) -> str:
    return text


def _moment(text: str) -> Any:
    try:
        return timestamp_of(text)
    except CelError as error:
        raise CelError(f"Invalid date-time formatted string {text}: {error}") from None


def _day(text: str) -> Any:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise CelError(f"Invalid date formatted string {text}: {error}") from None
    return moment(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _duration(text: str) -> Any:
    try:
        return duration_of(text)
    except CelError as error:
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
