# SPDX-License-Identifier: Apache-2.0
"""Resource quantities such as `500m` and `1Gi`: exact amounts with upstream's formatting.

An amount is a whole number of billionths, which is upstream's precision; anything finer is rounded away from zero when
it is parsed. Differs from upstream: results are never cut to 64 bits, and amounts above 999E keep their suffix.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache, total_ordering
from typing import Final

NANO: Final = -9
MICRO: Final = -6
MILLI: Final = -3
_ONE: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * _ONE
# Limits the cost of arithmetic on long numbers.
_MAX_DIGITS: Final = 1000


class QuantityFormat(Enum):
    """Format of a quantity: decimal or binary suffixes, or a decimal exponent."""

    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


class QuantityError(ValueError):
    """Raised for a text that is no quantity; the message is shown to clients."""


_BAD_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BAD_NUMBER: Final = "unable to parse numeric part of quantity"
_BAD_SUFFIX: Final = "unable to parse quantity's suffix"

_SPLIT: Final = re.compile(r"[+-]?+0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_EXPONENT: Final = re.compile("[eE]([-+]?[0-9]{1,18})")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", *_BINARY)


@total_ordering
class Quantity:
    """Immutable amount; equality compares values, regardless of format."""

    __slots__ = ("_text", "format", "nanos")

    def __init__(self, nanos: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI, text: str = "") -> None:
        self.nanos = nanos
        self.format = format
        self._text = text

    @classmethod
    def of(cls, value: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """Return a quantity of whole units."""
        return cls(value * _ONE, format)

    @classmethod
    def of_milli(cls, value: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """Return a quantity of thousandths."""
        return cls(value * 10**6, format)

    def value(self) -> int:
        """Return whole units, rounded away from zero."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Return thousandths, rounded away from zero."""
        return self.scaled_value(MILLI)

    def scaled_value(self, exponent: int) -> int:
        """Return the amount in units of a power of ten, rounded away from zero."""
        return _divide_up(self.nanos, 10 ** (exponent - NANO))

    def rounded_up(self, exponent: int) -> Quantity:
        """Return the amount at no finer precision than a power of ten, rounded away from zero."""
        unit = 10 ** (exponent - NANO)
        return Quantity(_divide_up(self.nanos, unit) * unit, self.format) if self.nanos % unit else self

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.nanos > 0) - (self.nanos < 0)

    def __float__(self) -> float:
        return self.nanos / _ONE

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self else other.format)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nanos * times, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __str__(self) -> str:
        return self._text or _canonical(self.nanos, self.format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor) if number > 0 else number // divisor


def _canonical(nanos: int, format: QuantityFormat) -> str:
    """Format an amount with the largest suffix that leaves a whole number."""
    if nanos == 0:
        return "0"
    if format is QuantityFormat.BINARY_SI and abs(nanos) >= 1024 * _ONE and nanos % _ONE == 0:
        return _canonical_binary(nanos // _ONE)
    exponent = NANO
    largest = max(_DECIMAL_SUFFIX) if format is not QuantityFormat.DECIMAL_EXPONENT else None
    while nanos % 1000 == 0 and exponent != largest:
        nanos //= 1000
        exponent += 3
    if format is QuantityFormat.DECIMAL_EXPONENT:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def _canonical_binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIX[power]}"


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity; raises QuantityError."""
    split = _SPLIT.fullmatch(text)
    if split is None or not text:
        raise QuantityError(_BAD_FORMAT)
    whole, fraction, suffix = split[1] or "0", split[2] or "", split[3]
    if len(whole) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(_BAD_NUMBER)
    mantissa = text[: split.start(3)]
    if suffix in _BINARY:
        quantity = _read_binary(text, whole, fraction, _BINARY[suffix])
    else:
        quantity = _read_decimal(text, whole, fraction, suffix, has_digits=any(map(str.isdigit, mantissa)))
    return -quantity if text[0] == "-" and not quantity._text else quantity


def _read_decimal(text: str, whole: str, fraction: str, suffix: str, has_digits: bool) -> Quantity:
    format, exponent = _decimal_exponent(suffix)
    digits, scale = whole + fraction, exponent - len(fraction)
    # Upstream has a fast path for short numbers that keeps text which looks canonical.
    if len(digits) > 18 or scale < NANO:
        if not has_digits:
            raise QuantityError(_BAD_NUMBER)
        return Quantity(_to_nanos(int(digits), scale), format)
    nanos = _to_nanos(int(digits), scale)
    if scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0":
        return Quantity(-nanos if text[0] == "-" else nanos, format, text)
    return Quantity(nanos, format)


def _decimal_exponent(suffix: str) -> tuple[QuantityFormat, int]:
    if suffix in _DECIMAL:
        return QuantityFormat.DECIMAL_SI, _DECIMAL[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise QuantityError(_BAD_SUFFIX)
    if int(exponent[1]) > _MAX_DIGITS:
        raise QuantityError(_BAD_NUMBER)
    return QuantityFormat.DECIMAL_EXPONENT, max(int(exponent[1]), -_MAX_DIGITS)


def _read_binary(text: str, whole: str, fraction: str, exponent: int) -> Quantity:
    number = int(whole + fraction)
    nanos = _to_nanos(number << exponent, -len(fraction))
    if not fraction and len(whole) + exponent * 3 // 10 <= 14:
        if number & 0x07:
            return Quantity(-nanos if text[0] == "-" else nanos, QuantityFormat.BINARY_SI, text)
        return Quantity(nanos, QuantityFormat.BINARY_SI)
    return Quantity(
        min(nanos, _MAX_BINARY), QuantityFormat.DECIMAL_SI if 0 < nanos < _ONE else QuantityFormat.BINARY_SI
    )


def _to_nanos(number: int, scale: int) -> int:
    if scale >= NANO:
        return int(number * 10 ** (scale - NANO))
    return _divide_up(number, int(10 ** (NANO - scale)))


def canonical_quantity(text: str) -> str:
    """Return a quantity's text in canonical form, as upstream stores it; surrounding space is ignored."""
    return str(parse_quantity(text.strip()))
