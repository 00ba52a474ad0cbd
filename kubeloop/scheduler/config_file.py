"""KubeSchedulerConfiguration v1, read: profiles with their plugins merged into upstream's defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeloop.scheduler.config import ProfileConfig, SchedulerConfig, default_profile
from kubeloop.scheduler.framework import POINTS
from kubeloop.scheduler.queue import Patience

_VERSION: Final = "kubescheduler.config.k8s.io/v1"
_KIND: Final = "KubeSchedulerConfiguration"


class UnusableConfig(ValueError):
    """A configuration that can't be followed; the message is one sentence for a person."""


class PluginRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int | None = None


class PluginSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plugins that are switched on, in order, and off; `*` switches all off."""

    enabled: tuple[PluginRow, ...] = ()
    disabled: tuple[PluginRow, ...] = ()

    @property
    def off(self) -> frozenset[str]:
        return frozenset(one.name for one in self.disabled)


class PluginArgs(msgspec.Struct, frozen=True):
    name: str
    args: dict[str, Any] = {}


class ProfileFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None
    plugins: dict[str, PluginSet] = {}
    plugin_config: tuple[PluginArgs, ...] = ()


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the file may say; what is about connections and leadership is for whoever starts the process."""

    api_version: str = _VERSION
    kind: str = _KIND
    parallelism: int | None = None
    leader_election: dict[str, Any] = {}
    client_connection: dict[str, Any] = {}
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: float | None = None
    pod_max_backoff_seconds: float | None = None
    profiles: tuple[ProfileFile, ...] = ()
    extenders: tuple[Any, ...] = ()
    delay_cache_until_active: bool = False


def parse(document: Any) -> ConfigFile:
    """The file's content, checked."""
    try:
        found = msgspec.convert(document, ConfigFile)
    except msgspec.ValidationError as error:
        raise UnusableConfig(str(error)) from None
    if found.kind != _KIND or found.api_version != _VERSION:
        raise UnusableConfig(f"{found.api_version} {found.kind} is not {_VERSION} {_KIND}")
    if found.extenders:
        raise UnusableConfig("extenders are not supported: write a plugin instead")
    names = [one.scheduler_name for one in found.profiles]
    if len(set(names)) != len(names):
        raise UnusableConfig("two profiles have the same schedulerName")
    return found


def config_of(file: ConfigFile, unschedulable_seconds: float = 300.0) -> SchedulerConfig:
    profiles = tuple(_profile(one) for one in file.profiles) or (default_profile(),)
    first = 1.0 if file.pod_initial_backoff_seconds is None else file.pod_initial_backoff_seconds
    longest = 10.0 if file.pod_max_backoff_seconds is None else file.pod_max_backoff_seconds
    return SchedulerConfig(profiles, Patience(first, longest, unschedulable_seconds))


def _profile(file: ProfileFile) -> ProfileConfig:
    defaults = default_profile(file.scheduler_name)
    unknown = set(file.plugins) - {*POINTS, "multiPoint"}
    if unknown:
        raise UnusableConfig(f"there is no extension point {', '.join(sorted(unknown))}")
    everywhere = file.plugins.get("multiPoint", PluginSet())
    weights = dict(defaults.weights)
    for one in (*everywhere.enabled, *file.plugins.get("score", PluginSet()).enabled):
        if one.weight:
            weights[one.name] = one.weight
    names = _merged(defaults.names, everywhere)
    points = {point: _at_point(names, one) for point, one in file.plugins.items() if point != "multiPoint"}
    extra = [one.name for one_set in file.plugins.values() for one in one_set.enabled]
    every = tuple(dict.fromkeys((*names, *extra)))
    args = {one.name: _plain_args(one.args) for one in file.plugin_config}
    return ProfileConfig(file.scheduler_name, every, {**_elsewhere(names, every), **points}, weights, args)


def _merged(defaults: Sequence[str], given: PluginSet) -> tuple[str, ...]:
    """Defaults that are not off, in their order; then what is added."""
    kept = () if "*" in given.off else tuple(name for name in defaults if name not in given.off)
    return tuple(dict.fromkeys((*kept, *(one.name for one in given.enabled))))


def _at_point(everywhere: Sequence[str], given: PluginSet) -> tuple[str, ...]:
    """What is named at a point and everywhere comes first, then the rest of everywhere, then what is only here."""
    named = [one.name for one in given.enabled]
    kept = () if "*" in given.off else tuple(name for name in everywhere if name not in given.off)
    return tuple(dict.fromkeys((*(name for name in named if name in everywhere), *kept, *named)))


def _elsewhere(names: Sequence[str], every: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Plugins that are named at single points only are not asked at others."""
    return {} if tuple(names) == tuple(every) else dict.fromkeys(POINTS, tuple(names))


def _plain_args(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name not in ("apiVersion", "kind")}
