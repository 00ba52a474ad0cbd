"""Pod security policy of a namespace, from its labels: enforced and warned levels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kubeloop.api.meta.field_path import FieldError, FieldPath, invalid

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")  # each stricter than the one before
LATEST: Final = -1

_LABELS = FieldPath("metadata").child("labels")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)


class LevelVersion(NamedTuple):
    """Level in a policy version: the minor number, or LATEST."""

    level: str = "privileged"
    version: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version == LATEST else f'v1.{self.version}'}"


class PodSecurityPolicy(NamedTuple):
    """Enforced and warned levels of a namespace, with the errors in its labels."""

    enforce: LevelVersion
    warn: LevelVersion
    errors: tuple[FieldError, ...]


def policy_of(labels: Mapping[str, str]) -> PodSecurityPolicy:
    """Parse the labels; an invalid enforce level means restricted, an invalid warn level privileged."""
    errors: list[FieldError] = []
    enforce = _read(labels, "enforce", "restricted", errors)
    _read(labels, "audit", "privileged", errors)
    warn = _read(labels, "warn", "privileged", errors)
    stated = labels.get(PREFIX + "enforce")
    if PREFIX + "warn" not in labels and stated in ("baseline", "restricted"):
        # The enforced level of pods is warned about on workloads.
        warn = LevelVersion(enforce.level, warn.version if PREFIX + "warn-version" in labels else enforce.version)
    return PodSecurityPolicy(enforce, warn, tuple(errors))


def is_stricter(one: LevelVersion, other: LevelVersion) -> bool:
    """Return True if the first level is stricter than the other."""
    return LEVELS.index(one.level) > LEVELS.index(other.level)


def _read(labels: Mapping[str, str], mode: str, fallback: str, errors: list[FieldError]) -> LevelVersion:
    level, version = labels.get(PREFIX + mode, "privileged"), LATEST
    if level not in LEVELS:
        errors.append(invalid(_LABELS.key(PREFIX + mode), level, f"must be one of {', '.join(LEVELS)}"))
        level = fallback
    text = labels.get(f"{PREFIX}{mode}-version", "latest")
    match = _VERSION.fullmatch(text)
    if match:
        version = int(match[1])
    elif text != "latest":
        errors.append(invalid(_LABELS.key(f"{PREFIX}{mode}-version"), text, 'must be "latest" or "v1.x"'))
    return LevelVersion(level, version)
