# SPDX-License-Identifier: Apache-2.0
"""String formats in schemas; unknown formats are ignored, as upstream does."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from kubeloop.api.meta.name_rules import check_dns1123_label, check_dns1123_subdomain
from kubeloop.api.scalars.duration import DurationError, parse_duration


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    return _matches(
        rf"(?i:[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}})"
    )


def _date_time(text: str) -> bool:
    found = _DATE_TIME.fullmatch(text)
    return found is not None and _date(found.group(1))


_DATE_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[tT ](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?",
    re.ASCII,
)


def _date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _duration(text: str) -> bool:
    try:
        parse_duration(text)
    except DurationError:
        return _WORDED_DURATION.fullmatch(text) is not None
    return True


_WORDED_DURATION: Final = re.compile(
    r"(?i:\d+\s*(?:ns|nano(?:second)?s?|us|µs|micro(?:second)?s?|ms|milli(?:second)?s?|s|secs?|seconds?|m|mins?|minutes?"
    r"|h|hrs?|hours?|d|days?|w|weeks?))",
)


def _address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _has_check_digit(digits: str) -> bool:
    """Return True if a card number satisfies Luhn's check."""
    doubled = [int(one) * (1 + index % 2) for index, one in enumerate(reversed(digits))]
    return sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]", "", text)
    return 13 <= len(digits) <= 19 and _has_check_digit(digits)


def _isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum((index + 1) * (10 if one == "X" else int(one)) for index, one in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(one) * (3 if index % 2 else 1) for index, one in enumerate(digits)) % 10 == 0


def _anything(_text: str) -> bool:
    return True


# Of the classes of characters: letters (a), digits (0), symbols (s), hyphens and dots.
_HOSTNAME: Final = re.compile(r"[a0s]-?[a0s]{0,62}|(?:[a0s](?:[a0s-]{0,61}[a0s])?\.)+a{2,63}")
_LONGEST_HOSTNAME: Final = 255
_LONGEST_LABEL: Final = 63


def _hostname(text: str) -> bool:
    """Return True for a hostname as go-openapi defines it, in which symbols such as `=` are allowed."""
    if len(text) > _LONGEST_HOSTNAME or any(len(label.encode()) > _LONGEST_LABEL for label in text.split(".")):
        return False
    return _HOSTNAME.fullmatch("".join(map(_character_class, text))) is not None


def _character_class(character: str) -> str:
    if character in "-.":
        return character
    category = unicodedata.category(character)
    if category[0] == "L":
        return "a"
    return "0" if character in "0123456789" else "s" if category[0] == "S" else "!"


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "uri": _uri,
    "email": _matches(r"[^@\s]+@[^@\s]+"),
    "hostname": _hostname,
    "ipv4": _address(4),
    "ipv6": _address(6),
    "cidr": _network,
    "mac": _matches(r"(?:[0-9a-fA-F]{2}[:-]){5,7}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{4}\.){2,3}[0-9a-fA-F]{4}"),
    "uuid": _uuid("[0-9a-f]"),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(
        r"rgb\(\s*(?:\d{1,2}|1\d\d|2[0-4]\d|25[0-5])(?:\s*,\s*(?:\d{1,2}|1\d\d|2[0-4]\d|25[0-5])){2}\s*\)"
    ),
    "byte": _base64,
    "password": _anything,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
    "date-time": _date_time,
    "k8s-short-name": lambda text: not check_dns1123_label(text),
    "k8s-long-name": lambda text: not check_dns1123_subdomain(text),
}
