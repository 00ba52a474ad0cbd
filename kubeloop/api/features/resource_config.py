# SPDX-License-Identifier: Apache-2.0
"""Resources that an API server serves: the defaults, modified by `--runtime-config`.

A choice is a mapping from `api/all`, `api/ga`, `api/beta`, `api/alpha`, a group's version (`apps/v1`, `v1` for the
core group) or one resource of it (`batch/v1/jobs`) to `true` or `false`. The more specific key wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features, parse_feature_gates
from kubeloop.api.kinds import RESOURCES, Resource

_LEVELS: Final = {
    "api/all": r".*",
    "api/ga": r"v\d+",
    "api/beta": r"v\d+beta\d+",
    "api/alpha": r"v\d+alpha\d+",
}
# Groups of delegated API servers, which the choice doesn't affect.
_ALWAYS: Final = ("apiregistration.k8s.io",)
# Versions that can still be named, though they serve nothing any more.
_EMPTY: Final = {
    "apiextensions.k8s.io": ("v1beta1",),
    "apps": ("v1beta1", "v1beta2"),
    "authentication.k8s.io": ("v1alpha1", "v1beta1"),
    "authorization.k8s.io": ("v1beta1",),
    "batch": ("v1beta1",),
    "certificates.k8s.io": ("v1alpha1",),
    "discovery.k8s.io": ("v1beta1",),
    "events.k8s.io": ("v1beta1",),
    "flowcontrol.apiserver.k8s.io": ("v1beta1", "v1beta2", "v1beta3"),
    "networking.k8s.io": ("v1beta1",),
    "node.k8s.io": ("v1alpha1", "v1beta1"),
    "policy": ("v1beta1",),
    "rbac.authorization.k8s.io": ("v1alpha1", "v1beta1"),
    "storage.k8s.io": ("v1alpha1", "v1beta1"),
}
# Discovery order of groups that serve nothing by default.
_FOLLOWED_BY: Final = {"internal.apiserver.k8s.io": "storagemigration.k8s.io"}
_LAST: Final = ("lifecycle.k8s.io",)
_TRUE: Final = frozenset(("", "1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))


class InvalidRuntimeConfig(ValueError):
    """Raised for a `--runtime-config` that can't be served; the message is upstream's."""


class APIResourceConfig(msgspec.Struct, frozen=True):
    """Resources and features of an API server."""

    resources: tuple[Resource, ...] = RESOURCES
    features: Features = DEFAULT_FEATURES

    def stored_resources(self) -> tuple[Resource, ...]:
        """Return the resources with storage: those served, and the default ones that the server may look up itself."""
        return RESOURCES if self.resources is RESOURCES else tuple(dict.fromkeys((*self.resources, *RESOURCES)))


def parse_resource_config(choice: Iterable[str], gates: Iterable[str]) -> APIResourceConfig:
    """Parse `--runtime-config` and `--feature-gates`; raises UnusableChoice and UnusableGate."""
    features = parse_feature_gates(gates)
    return APIResourceConfig(served_resources(parse_runtime_config(choice), features), features)


def parse_runtime_config(said: Iterable[str]) -> dict[str, str]:
    """Parse `a=b,c=d` into a mapping; the last value of a key wins."""
    words = (one for text in said for one in text.split(",") if one)
    pairs = (word.partition("=")[::2] for word in words)
    return {_canonical_key(key.strip()): value.strip() for key, value in pairs if key.strip() != "api/legacy"}


def _canonical_key(key: str) -> str:
    """Return `/v1` for the other names of the core group, with or without a resource, as upstream; else the key."""
    return "/v1" if key in ("v1", "api/v1") or key.startswith(("v1/", "api/v1/")) else key


def served_resources(
    choice: Mapping[str, str] | None = None, features: Features = DEFAULT_FEATURES
) -> tuple[Resource, ...]:
    """Return the resources to serve, in discovery order; raises UnusableChoice."""
    if not choice:
        if features is DEFAULT_FEATURES:
            return RESOURCES
        return tuple(one for one in RESOURCES if _is_on(one, features))
    known = _with_offered()
    _check(choice, known)
    versions, resources = _levels_chosen(choice, known), {}
    for key, value in choice.items():
        if key in _LEVELS:
            continue
        group, version, plural = _split(key)
        if plural:
            resources[group, version, plural] = _truth(key, value)
        else:
            versions[group, version] = _truth(key, value)

    def is_chosen(one: Resource) -> bool:
        by_version = versions[one.group, one.version]
        return one.group in _ALWAYS or resources.get((one.group, one.version, one.plural), by_version)

    return tuple(one for one in known if is_chosen(one) and _is_on(one, features))


def _with_offered() -> tuple[Resource, ...]:
    """Return all resources: in each group, optional ones follow those that are served by default."""
    from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES  # few servers need these

    found: list[Resource] = []
    for group in (*dict.fromkeys(one.group for one in RESOURCES), *_LAST):
        groups = (*(new for new, after in _FOLLOWED_BY.items() if after == group), group)
        found += (one for each in groups for one in (*RESOURCES, *OPTIONAL_RESOURCES) if one.group == each)
    return tuple(found)


def _levels_chosen(choice: Mapping[str, str], known: Iterable[Resource]) -> dict[tuple[str, str], bool]:
    by_default = {(one.group, one.version) for one in RESOURCES}
    versions = {(one.group, one.version): (one.group, one.version) in by_default for one in known}
    for level, pattern in _LEVELS.items():
        if level not in choice:
            continue
        if choice[level] not in ("true", "false"):
            raise InvalidRuntimeConfig(f"invalid value {level}={choice[level]}")
        versions |= {key: choice[level] == "true" for key in versions if re.fullmatch(pattern, key[1])}
    return versions


def _check(choice: Mapping[str, str], known: Iterable[Resource]) -> None:
    if dict(choice) == {"api/all": "false"}:
        raise InvalidRuntimeConfig("invalid runtime-config with only api/all=false")
    versions = {(one.group, one.version) for one in known}
    versions |= {(group, version) for group, names in _EMPTY.items() for version in names}
    groups = {group for group, _ in versions}
    asked = [_split(key) for key in choice if key not in _LEVELS]
    unknown = sorted({_shown(group, version) for group, version, _ in asked if group not in groups})
    if unknown:
        raise InvalidRuntimeConfig(f"unknown api groups {','.join(unknown)}")
    for group, version, _ in asked:
        if (group, version) not in versions:
            raise InvalidRuntimeConfig(f"group version {_shown(group, version)} that has not been registered")


def _split(key: str) -> tuple[str, str, str]:
    parts = key.split("/")
    if len(parts) not in (2, 3):
        raise InvalidRuntimeConfig(f"runtime-config invalid key {key}")
    plural = parts[2] if len(parts) == 3 else ""
    if plural != plural.lower():
        why = f'group/version/resource and resource is always lowercase plural, not "{plural}"'
        raise InvalidRuntimeConfig(f"invalid key {key}: {why}")
    return parts[0], parts[1], plural


def _truth(key: str, value: str) -> bool:
    if value not in _TRUE | _FALSE:
        why = f'strconv.ParseBool: parsing "{value}": invalid syntax'
        raise InvalidRuntimeConfig(f"invalid value of {key}: {value}, err: {why}")
    return value in _TRUE


def _shown(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _is_on(one: Resource, features: Features) -> bool:
    return not one.feature_gate or features.is_enabled(one.feature_gate)
