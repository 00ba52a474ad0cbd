# SPDX-License-Identifier: Apache-2.0
"""IntOrString values such as `3`, `"25%"` and `"http"`: in Python simply `int | str`."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api.meta.field_path import quote

IntOrString = int | str

_INTEGER: Final = re.compile("[+-]?[0-9]+")
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)


class IntOrStringError(ValueError):
    """Raised for a value that can't be scaled; the message is upstream's."""


def parse_int_or_string(text: str) -> IntOrString:
    """Return the number if the text is one that fits 32 bits, else the text itself."""
    number = int(text) if _INTEGER.fullmatch(text) and len(text) <= 20 else None
    return number if number is not None and number in _INT32 else text


def int_value(value: IntOrString) -> int:
    """Return the number, or the number that a text contains; any other text counts as zero."""
    if isinstance(value, int):
        return value
    try:
        return _atoi(value)
    except IntOrStringError:
        return 0


def is_percent(value: IntOrString) -> bool:
    """Return True if the value is a text such as `25%`."""
    return isinstance(value, str) and re.fullmatch("[0-9]+%", value) is not None


def scaled_value(value: IntOrString | None, total: int, round_up: bool) -> int:
    """Return a number unchanged, or a percentage of the total; raises IntOrStringError for any other text."""
    if value is None:
        raise IntOrStringError("nil value for IntOrString")
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise IntOrStringError("invalid value for IntOrString: invalid type: string is not a percentage")
    try:
        hundredths = _atoi(value[:-1]) * total
    except IntOrStringError as error:
        raise IntOrStringError(f"invalid value for IntOrString: invalid value {quote(value)}: {error}") from None
    return -(-hundredths // 100) if round_up else hundredths // 100


def _atoi(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise IntOrStringError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text.lstrip("+-0")) > 19 or int(text) not in _INT64:
        raise IntOrStringError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)
