# SPDX-License-Identifier: Apache-2.0
"""Go durations such as `1h30m` or `1.5s`, as whole nanoseconds (metav1.Duration)."""

from __future__ import annotations

import re
from typing import Final

NANOSECOND: Final = 1
MICROSECOND: Final = 1000
MILLISECOND: Final = 10**6
SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # the micro sign
    "\u03bcs": MICROSECOND,  # the Greek letter mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_LIMIT: Final = 2**63
_PART: Final = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?+([^.0-9]*+)")


class DurationError(ValueError):
    """Raised for a text that is no duration; the message is Go's."""


def quote_for_time(text: str) -> str:
    """Quote text as Go's time package does: plain ASCII, any other byte in hexadecimal."""
    quoted = (f"\\{char}" if char in '"\\' else char if " " <= char < "\x80" else _hexadecimal(char) for char in text)
    return f'"{"".join(quoted)}"'


def _hexadecimal(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogatepass"))


def parse_duration(text: str) -> int:
    """Parse a duration into nanoseconds; raises DurationError."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    invalid = DurationError(f"time: invalid duration {quote_for_time(text)}")
    if not rest:
        raise invalid
    total = position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            raise invalid
        whole, fraction, unit = part[1], part[2] or "", part[3]
        if len(whole) > 100 or int(whole or "0") > _LIMIT:
            raise invalid
        if not unit:
            raise DurationError(f"time: missing unit in duration {quote_for_time(text)}")
        if unit not in _UNITS:
            raise DurationError(f"time: unknown unit {quote_for_time(unit)} in duration {quote_for_time(text)}")
        total += int(whole or "0") * _UNITS[unit] + _fraction_of(fraction, _UNITS[unit])
        if total > _LIMIT:
            raise invalid
        position = part.end()
    if text[0] == "-":
        return -total
    if total == _LIMIT:
        raise invalid
    return total


def _fraction_of(digits: str, unit: int) -> int:
    """Return the fraction of a unit, with the rounding of Go's floating-point arithmetic."""
    kept = digits[:19]
    while kept and int(kept) >= _LIMIT:
        kept = kept[:-1]
    return int(float(int(kept)) * (unit / 10.0 ** len(kept))) if kept else 0


def format_duration(nanoseconds: int) -> str:
    """Format nanoseconds as Go does: `1h30m0s`, `1.5s`, `250ms`."""
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left == 0:
        return "0s"
    if left < SECOND:
        for suffix, unit in (("ms", MILLISECOND), ("\u00b5s", MICROSECOND), ("ns", NANOSECOND)):
            if left >= unit:
                return f"{sign}{_decimal(left, unit)}{suffix}"
    minutes, seconds = divmod(left, MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(seconds, SECOND)}s"
    if hours:
        text = f"{hours}h{minutes}m{text}"
    elif minutes:
        text = f"{minutes}m{text}"
    return sign + text


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
