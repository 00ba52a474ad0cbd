# SPDX-License-Identifier: Apache-2.0
"""Semantic version library (semver.org): parsing and comparison."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import ClassVar, Final

from kubeloop.api.cel.check.types import BOOL, INT, STRING, Type, opaque
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import argument_traversal_cost, function, method
from kubeloop.api.cel.values import UINT_MAX, CelError
from kubeloop.api.meta.field_path import quote

SEMVER: Final = opaque("kubernetes.Semver")
_PARTS: Final = ("Major", "Minor", "Patch")
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+")

# Numbers sort before texts, each among themselves.
_Identifier = tuple[int, int, str]


class CelSemver:
    """Semantic version; build metadata is ignored in comparisons."""

    __slots__ = ("numbers", "released")
    cel_type: ClassVar[Type] = SEMVER

    def __init__(self, numbers: tuple[int, ...], prerelease: tuple[_Identifier, ...]) -> None:
        self.numbers = numbers
        # A release sorts after its prereleases.
        self.released: tuple[bool, tuple[_Identifier, ...]] = (not prerelease, prerelease)

    def compare(self, other: CelSemver) -> int:
        """Return -1, 0 or 1."""
        mine, theirs = (self.numbers, self.released), (other.numbers, other.released)
        return (mine > theirs) - (mine < theirs)

    def __str__(self) -> str:
        """Return the version without its build metadata."""
        prerelease = ".".join(text or str(number) for _, number, text in self.released[1])
        return ".".join(map(str, self.numbers)) + (f"-{prerelease}" if prerelease else "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelSemver) and self.compare(other) == 0

    def __hash__(self) -> int:
        return hash((self.numbers, self.released))


class _VersionError(ValueError):
    """Raised for a text that is no version; the message gives the reason."""


def _read(text: str) -> CelSemver:
    if not text:
        raise _VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise _VersionError("No Major.Minor.Patch elements found")
    patch, _, build = parts[2].partition("+")
    has_build = "+" in parts[2]
    patch, dash, prerelease = patch.partition("-")
    numbers = tuple(_number(name, part) for name, part in zip(_PARTS, (*parts[:2], patch), strict=True))
    identifiers = tuple(map(_identifier, prerelease.split("."))) if dash else ()
    if has_build:
        _check_build(build)
    return CelSemver(numbers, identifiers)


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        if not text:
            raise _VersionError('strconv.ParseUint: parsing "": invalid syntax')
        raise _VersionError(f"Invalid character(s) found in {name.lower()} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise _VersionError(f"{name} number must not contain leading zeroes {quote(text)}")
    if len(text) > 20 or int(text) > UINT_MAX:
        raise _VersionError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _identifier(text: str) -> _Identifier:
    if not text:
        raise _VersionError("Prerelease is empty")
    if text.isascii() and text.isdigit():
        if len(text) > 1 and text[0] == "0":
            raise _VersionError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return (0, int(text[:100]), "")
    if not _IDENTIFIER.fullmatch(text):
        raise _VersionError(f"Invalid character(s) found in prerelease {quote(text)}")
    return (1, 0, text)


def _check_build(text: str) -> None:
    for part in text.split("."):
        if not part:
            raise _VersionError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(part):
            raise _VersionError(f"Invalid character(s) found in build meta data {quote(part)}")


def _normalized(text: str) -> str:
    """Remove a leading `v` and leading zeros, and add missing numbers."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise _VersionError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _without_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in tuple("0123456789") and stripped else f"0{stripped}"


@lru_cache(maxsize=256)
def _parsed(text: str, normalize: bool) -> CelSemver | str:
    try:
        return _read(_normalized(text) if normalize else text)
    except _VersionError as error:
        return str(error)


def parse_cel_semver(text: str, normalize: bool = False) -> CelSemver:
    """Parse a version, optionally normalizing it; raises CelError."""
    found = _parsed(text, normalize)
    if isinstance(found, str):
        raise CelError(found)
    return found


def _is_version(text: str, normalize: bool = False) -> bool:
    return isinstance(_parsed(text, normalize), CelSemver)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "semver": (
        function("string_to_semver", (STRING,), SEMVER, parse_cel_semver, argument_traversal_cost(0)),
        function("string_bool_to_semver", (STRING, BOOL), SEMVER, parse_cel_semver, argument_traversal_cost(0)),
    ),
    "isSemver": (
        function("is_semver_string", (STRING,), BOOL, _is_version, argument_traversal_cost(0)),
        function("is_semver_string_bool", (STRING, BOOL), BOOL, _is_version, argument_traversal_cost(0)),
    ),
    "isGreaterThan": (
        method("semver_is_greater_than", (SEMVER, SEMVER), BOOL, lambda one, other: one.compare(other) > 0),
    ),
    "isLessThan": (method("semver_is_less_than", (SEMVER, SEMVER), BOOL, lambda one, other: one.compare(other) < 0),),
    "compareTo": (method("semver_compare_to", (SEMVER, SEMVER), INT, CelSemver.compare),),
    "major": (method("semver_major", (SEMVER,), INT, lambda one: one.numbers[0]),),
    "minor": (method("semver_minor", (SEMVER,), INT, lambda one: one.numbers[1]),),
    "patch": (method("semver_patch", (SEMVER,), INT, lambda one: one.numbers[2]),),
}
