# SPDX-License-Identifier: Apache-2.0
"""Limits of numbers: the range of their format, multiples, minimum and maximum."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from kubeloop.api.structural.model import Schema
from kubeloop.api.structural.problems import SchemaViolations, invalid_value, violation_without_path

_BITS: Final = {"int32": 31, "int64": 63, "": 63}
_FLOAT_MAX: Final = 3.4028234663852886e38


class NumberLimits:
    """Constraints of a schema on a number."""

    def __init__(self, schema: Schema, types: tuple[str, ...], format: str) -> None:
        self._type = types[0] if len(types) == 1 else ""
        self._format = format
        self._multiple = schema.get("multipleOf")
        self._min, self._max = schema.get("minimum"), schema.get("maximum")
        self._above = bool(schema.get("exclusiveMinimum"))
        self._below = bool(schema.get("exclusiveMaximum"))

    def check(self, value: Any, name: str, found: SchemaViolations) -> None:
        """Append the violations of a number to `found`."""
        if not self._fits(value):
            form = f"with format {self._format}" if self._format else "(default format)"
            found.append(violation_without_path(f"Checked value must be of type {self._type} {form} in {name}"))
        if self._multiple and not _is_multiple(value, self._multiple):
            found.append(invalid_value(name, value, f"should be a multiple of {format_number(self._multiple)}"))
        if self._max is not None and (value > self._max or (self._below and value == self._max)):
            limit = "less than" if self._below else "less than or equal to"
            found.append(invalid_value(name, value, f"should be {limit} {format_number(self._max)}"))
        if self._min is not None and (value < self._min or (self._above and value == self._min)):
            limit = "greater than" if self._above else "greater than or equal to"
            found.append(invalid_value(name, value, f"should be {limit} {format_number(self._min)}"))

    def _fits(self, value: Any) -> bool:
        if self._type == "integer":
            if isinstance(value, float) and not value.is_integer():
                return False
            bits = _BITS.get(self._format, 63)
            return bool(-(2**bits) <= value < 2**bits)
        return not (self._format == "float" and abs(value) > _FLOAT_MAX)


def _is_multiple(value: Any, factor: Any) -> bool:
    return (Fraction(str(value)) / Fraction(str(factor))).denominator == 1


def format_number(number: Any) -> str:
    """Format a number as Go does."""
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return str(number)
