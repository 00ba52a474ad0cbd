# SPDX-License-Identifier: Apache-2.0
"""PodSecurityConfiguration: default levels of namespaces without labels, and exemptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from kubeloop.api.meta.field_path import FieldError, FieldPath, duplicate, invalid
from kubeloop.api.meta.name_rules import check_dns1123_label, check_dns1123_subdomain
from kubeloop.apiserver.admission.plugins.pod_security.labels import (
    MODES,
    VERSION_PROBLEM,
    LevelVersion,
    PodSecurityPolicy,
    level_problem,
    parse_version,
)


class PodSecurityExemptions(msgspec.Struct, frozen=True, rename="camel"):
    """Users, namespaces and runtime classes whose pods are not evaluated."""

    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


class PodSecurityConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration file of the plugin."""

    kind: str = ""
    api_version: str = ""
    defaults: dict[str, str] = msgspec.field(default_factory=dict)
    exemptions: PodSecurityExemptions = PodSecurityExemptions()

    def validate(self) -> Iterator[FieldError]:
        """Yield the errors of the configuration."""
        path = FieldPath("defaults")
        for mode in MODES:
            level, version = self._level(mode)
            if problem := level_problem(level):
                yield invalid(path.child(mode), level, problem)
            if parse_version(version) is None:
                yield invalid(path.child(f"{mode}-version"), version, VERSION_PROBLEM)
        exempt = FieldPath("exemptions")
        yield from _validate_names(self.exemptions.namespaces, exempt.child("namespaces"), check_dns1123_label)
        yield from _validate_names(
            self.exemptions.runtime_classes, exempt.child("runtimeClasses"), check_dns1123_subdomain
        )
        yield from _validate_names(self.exemptions.usernames, exempt.child("usernames"), _check_username)

    def policy(self) -> PodSecurityPolicy:
        """Return the default policy of a valid configuration."""
        enforce, audit, warn = map(self._parse, MODES)
        return PodSecurityPolicy(enforce, audit, warn)

    def _parse(self, mode: str) -> LevelVersion:
        level, version = self._level(mode)
        minor = parse_version(version)
        assert minor is not None
        return LevelVersion(level, minor)

    def _level(self, mode: str) -> tuple[str, str]:
        return self.defaults.get(mode) or "privileged", self.defaults.get(f"{mode}-version") or "latest"


def _validate_names(names: tuple[str, ...], path: FieldPath, check: Callable[[str], list[str]]) -> Iterator[FieldError]:
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        problems = check(name)
        if problems:
            yield invalid(path.index(index), name, ", ".join(problems))
        elif seen[name]:
            yield duplicate(path.index(index), name)
        else:
            seen[name] += 1


def _check_username(name: str) -> list[str]:
    return [] if name else ["username must not be empty"]
