# SPDX-License-Identifier: Apache-2.0
"""KubeSchedulerConfiguration v1: parsing, validation, and merging of plugins into upstream's defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.meta.field_path import FieldPath, duplicate, invalid, required
from kubeloop.scheduler.config.configuration import (
    DEFAULT_NAME,
    ProfileConfig,
    SchedulerConfig,
    default_profile,
)
from kubeloop.scheduler.config.extender_settings import ExtenderSettings
from kubeloop.scheduler.config.extender_settings import validate_extenders as problems_of_extenders
from kubeloop.scheduler.config.plugin_args import validate_plugin_args
from kubeloop.scheduler.framework.plugin import EXTENSION_POINTS
from kubeloop.scheduler.queue.scheduling_queue import QueueTimeouts

_VERSION: Final = "kubescheduler.config.k8s.io/v1"
_KIND: Final = "KubeSchedulerConfiguration"
_REMOVED_PLUGINS: Final = (
    "AzureDiskLimits",
    "CinderLimits",
    "EBSLimits",
    "GCEPDLimits",
)  # plugins removed from upstream
_GONE_WHY: Final = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{_VERSION}")'


class SchedulerConfigError(ValueError):
    """Raised for an invalid configuration; the message is one sentence."""


class PluginSetEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plugin name with an optional weight."""

    name: str
    weight: int | None = None


class PluginSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Enabled plugins in order, and disabled ones; `*` disables all."""

    enabled: tuple[PluginSetEntry, ...] = ()
    disabled: tuple[PluginSetEntry, ...] = ()

    @property
    def disabled_names(self) -> frozenset[str]:
        """Names of the disabled plugins."""
        return frozenset(one.name for one in self.disabled)


class PluginConfigEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a plugin."""

    name: str
    args: dict[str, Any] = {}


class KubeSchedulerProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """KubeSchedulerProfile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: dict[str, PluginSet] = {}
    plugin_config: tuple[PluginConfigEntry, ...] = ()


class LeaderElection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Leader election settings of component-base; fields that are not set are left to flags and defaults."""

    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class ClientConnection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Client connection settings of component-base."""

    kubeconfig: str | None = None
    accept_content_types: str | None = None
    content_type: str | None = None
    qps: float | None = None
    burst: int | None = None


class KubeSchedulerConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """KubeSchedulerConfiguration; connection and leader election settings are for the program."""

    api_version: str = _VERSION
    kind: str = _KIND
    parallelism: int | None = None
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[ExtenderSettings, ...] = ()
    delay_cache_until_active: bool = False


def parse_config(document: Any) -> KubeSchedulerConfiguration:
    """Return the validated configuration. Raises `UnusableConfig`."""
    try:
        found = msgspec.convert(document, KubeSchedulerConfiguration)
    except msgspec.ValidationError as error:
        raise SchedulerConfigError(str(error)) from None
    if found.kind != _KIND or found.api_version != _VERSION:
        raise SchedulerConfigError(f"{found.api_version} {found.kind} is not {_VERSION} {_KIND}")
    if problems := validate_config(found):
        raise SchedulerConfigError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return found


def to_scheduler_config(
    file: KubeSchedulerConfiguration, unschedulable_seconds: float = 300.0, features: Features = DEFAULT_FEATURES
) -> SchedulerConfig:
    """Return the scheduler configuration of a file."""
    ignored = [name for one in file.extenders for name in one.ignored_resources]
    profiles = tuple(_profile(one, ignored, features) for one in file.profiles or (KubeSchedulerProfile(),))
    patience = QueueTimeouts(
        float(_or(file.pod_initial_backoff_seconds, 1)), float(_or(file.pod_max_backoff_seconds, 10))
    )
    patience = replace(patience, pod_max_in_unschedulable=unschedulable_seconds)
    return SchedulerConfig(profiles, file.extenders, patience, features)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


# Validation.


def validate_config(file: KubeSchedulerConfiguration) -> list[str]:
    """Return all validation errors, with upstream's messages."""
    found: list[str] = []
    if _or(file.parallelism, 16) <= 0:
        found.append(_wrong("parallelism", file.parallelism, "should be an integer value greater than zero"))
    if _or(file.client_connection.burst, 0) < 0:
        found.append(_wrong("clientConnection.burst", file.client_connection.burst, "must be non-negative"))
    found += _wrong_percentage("", file.percentage_of_nodes_to_score)
    first, longest = _or(file.pod_initial_backoff_seconds, 1), _or(file.pod_max_backoff_seconds, 10)
    if first <= 0:
        found.append(_wrong("podInitialBackoffSeconds", first, "must be greater than 0"))
    if longest < first:
        why = "must be greater than or equal to PodInitialBackoffSeconds"
        found.append(_wrong("podMaxBackoffSeconds", longest, why))
    for index, one in enumerate(file.profiles):
        found += _problems_of_profile(one, f"profiles[{index}]", alone=len(file.profiles) == 1)
    return found + _problems_among(file.profiles) + problems_of_extenders(file.extenders)


def _problems_of_profile(profile: KubeSchedulerProfile, path: str, *, alone: bool) -> list[str]:
    found: list[str] = []
    if not profile.scheduler_name and not (alone and profile.scheduler_name is None):
        found.append(str(required(FieldPath(f"{path}.schedulerName"))))
    found += _wrong_percentage(f"{path}.", profile.percentage_of_nodes_to_score)
    for point, plugins in profile.plugins.items():
        where = f"{path}.plugins.{point}"
        if point not in (*EXTENSION_POINTS, "multiPoint"):
            found.append(f"{where}: unknown extension point {point}")
        gone = [(number, one.name) for number, one in enumerate(plugins.enabled) if one.name in _REMOVED_PLUGINS]
        found += [_wrong(f"{where}.enabled[{number}]", name, _GONE_WHY) for number, name in gone]
    seen: set[str] = set()
    for index, one in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        if one.name in seen:
            found.append(str(duplicate(FieldPath(where), one.name)))
        seen.add(one.name)
        if one.name in _REMOVED_PLUGINS:
            found.append(_wrong(where, one.name, _GONE_WHY))
        found += validate_plugin_args(one.name, one.args, FieldPath(f"{where}.args"))
    return found


def _problems_among(profiles: Sequence[KubeSchedulerProfile]) -> list[str]:
    """Return errors across profiles: names must be unique, and queueSort must be the same for all."""
    found: list[str] = []
    names: dict[str | None, int] = {}
    for index, one in enumerate(profiles):
        if one.scheduler_name and one.scheduler_name in names:
            first = f"profiles[{names[one.scheduler_name]}].schedulerName"
            found.append(str(duplicate(FieldPath(f"profiles[{index}].schedulerName"), first)))
        names.setdefault(one.scheduler_name, index)
        sort, common = (each.plugins.get("queueSort", PluginSet()) for each in (one, profiles[0]))
        if len(sort.enabled) > 1:
            where = f"profiles[{index}].plugins.queueSort.Enabled"
            found.append(_wrong(where, len(sort.enabled), "only one queue sort plugin can be enabled"))
        if sort != common:
            told = msgspec.to_builtins(sort)
            found.append(_wrong(f"profiles[{index}].plugins.queueSort", told, "must be the same for all profiles"))
    return found


def _wrong(path: str, value: Any, why: str) -> str:
    return str(invalid(FieldPath(path), value, why))


def _wrong_percentage(path: str, value: int | None) -> list[str]:
    if value is None or 0 <= value <= 100:
        return []
    return [_wrong(f"{path}percentageOfNodesToScore", value, "not in valid range [0-100]")]


# Conversion.


def _profile(file: KubeSchedulerProfile, ignored: Sequence[str], features: Features) -> ProfileConfig:
    """Return a profile; resources ignored by the scheduler become ignoredResources of NodeResourcesFit."""
    defaults = default_profile(file.scheduler_name or DEFAULT_NAME, features)
    everywhere = file.plugins.get("multiPoint", PluginSet())
    weights = dict(defaults.weights)
    for one in (*everywhere.enabled, *file.plugins.get("score", PluginSet()).enabled):
        if one.weight:
            weights[one.name] = one.weight
    names = _merged(defaults.plugin_names, everywhere)
    points = {point: _at_point(names, one) for point, one in file.plugins.items() if point != "multiPoint"}
    extra = [one.name for one_set in file.plugins.values() for one in one_set.enabled]
    every = tuple(dict.fromkeys((*names, *extra)))
    args = {one.name: _plain_args(one.args) for one in file.plugin_config}
    if ignored:
        args["NodeResourcesFit"] = {**args.get("NodeResourcesFit", {}), "ignoredResources": list(ignored)}
    return ProfileConfig(defaults.scheduler_name, every, {**_elsewhere(names, every), **points}, weights, args)


def _merged(defaults: Sequence[str], given: PluginSet) -> tuple[str, ...]:
    """Return the defaults that are not disabled, in their order, followed by the enabled plugins."""
    kept = () if "*" in given.disabled_names else tuple(name for name in defaults if name not in given.disabled_names)
    return tuple(dict.fromkeys((*kept, *(one.name for one in given.enabled))))


def _at_point(everywhere: Sequence[str], given: PluginSet) -> tuple[str, ...]:
    """Return the plugins of an extension point.

    Plugins enabled both here and at multiPoint come first, then the rest of multiPoint, then those enabled only here.
    """
    named = [one.name for one in given.enabled]
    kept = () if "*" in given.disabled_names else tuple(name for name in everywhere if name not in given.disabled_names)
    return tuple(dict.fromkeys((*(name for name in named if name in everywhere), *kept, *named)))


def _elsewhere(names: Sequence[str], every: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return plugin lists that exclude plugins enabled at single extension points from all others."""
    return {} if tuple(names) == tuple(every) else dict.fromkeys(EXTENSION_POINTS, tuple(names))


def _plain_args(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name not in ("apiVersion", "kind")}
