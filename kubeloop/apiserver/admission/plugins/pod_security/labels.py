# SPDX-License-Identifier: Apache-2.0
"""Pod security policy of a namespace, from its labels: enforced, audited and warned levels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kubeloop.api.meta.field_path import FieldError, FieldPath, invalid

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")  # each stricter than the one before
LATEST: Final = -1
MODES: Final = ("enforce", "audit", "warn")
VERSION_PROBLEM: Final = 'must be "latest" or "v1.x"'

_NAMES = frozenset(PREFIX + name for mode in MODES for name in (mode, f"{mode}-version"))
_LABELS = FieldPath("metadata").child("labels")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)


class LevelVersion(NamedTuple):
    """Level in a policy version: the minor number, or LATEST."""

    level: str = "privileged"
    version: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version == LATEST else f'v1.{self.version}'}"


class PodSecurityPolicy(NamedTuple):
    """Levels of the three modes, with the errors in the labels that they were read from."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()
    errors: tuple[FieldError, ...] = ()

    def is_privileged(self) -> bool:
        """Return True if no mode can find a violation."""
        return self.enforce.level == self.audit.level == self.warn.level == "privileged"

    def is_equivalent(self, other: PodSecurityPolicy) -> bool:
        """Return True if all modes have equal effects; versions of the privileged level do not matter."""
        return all(
            one == theirs or one.level == theirs.level == "privileged"
            for one, theirs in zip(self[:3], other[:3], strict=True)
        )


PRIVILEGED: Final = PodSecurityPolicy()


def policy_of(labels: Mapping[str, str], defaults: PodSecurityPolicy = PRIVILEGED) -> PodSecurityPolicy:
    """Parse the labels; an invalid enforce level means restricted, an invalid audit or warn level privileged."""
    if labels.keys().isdisjoint(_NAMES):
        return defaults
    errors: list[FieldError] = []
    enforce = _read(labels, "enforce", defaults.enforce, errors)
    audit = _read(labels, "audit", defaults.audit, errors)
    warn = _read(labels, "warn", defaults.warn, errors)
    stated = labels.get(PREFIX + "enforce")
    if PREFIX + "warn" not in labels and stated in LEVELS and is_stricter(enforce, warn):
        # The enforced level of pods is warned about on workloads.
        warn = LevelVersion(enforce.level, warn.version if PREFIX + "warn-version" in labels else enforce.version)
    return PodSecurityPolicy(enforce, audit, warn, tuple(errors))


def labelled_modes(labels: Mapping[str, str], policy: PodSecurityPolicy) -> str:
    """Describe the modes that labels set to a level other than privileged, such as `enforce=baseline:latest`."""
    return ", ".join(
        f"{mode}={level}"
        for mode, level in zip(MODES, policy[:3], strict=True)
        if level.level != "privileged" and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
    )


def is_stricter(one: LevelVersion, other: LevelVersion) -> bool:
    """Return True if the first level is stricter than the other."""
    return LEVELS.index(one.level) > LEVELS.index(other.level)


def level_problem(text: str) -> str:
    """Return the error text of a level; empty if it is valid."""
    return "" if text in LEVELS else f"must be one of {', '.join(LEVELS)}"


def parse_version(text: str) -> int | None:
    """Return a policy version: the minor number, or LATEST; None if the text is no version."""
    if text == "latest":
        return LATEST
    match = _VERSION.fullmatch(text)
    return int(match[1]) if match else None


def _read(labels: Mapping[str, str], mode: str, default: LevelVersion, errors: list[FieldError]) -> LevelVersion:
    level, version = labels.get(PREFIX + mode, default.level), default.version
    problem = level_problem(level)
    if problem:
        errors.append(invalid(_LABELS.key(PREFIX + mode), level, problem))
        level = "restricted" if mode == "enforce" else "privileged"
    text = labels.get(f"{PREFIX}{mode}-version")
    if text is not None:
        found = parse_version(text)
        version = LATEST if found is None else found
        if found is None:
            errors.append(invalid(_LABELS.key(f"{PREFIX}{mode}-version"), text, VERSION_PROBLEM))
    return LevelVersion(level, version)
