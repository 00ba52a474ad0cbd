# SPDX-License-Identifier: Apache-2.0
"""Configuration of a scheduler: profiles with their plugins, extenders, and backoff times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.scheduler.config.extender_settings import ExtenderSettings
from kubeloop.scheduler.queue.scheduling_queue import QueueTimeouts

DEFAULT_NAME: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """Profile: plugins in order, extension points, score weights and arguments."""

    scheduler_name: str = DEFAULT_NAME
    plugin_names: Sequence[str] = ()  # all plugins, in order
    points: Mapping[str, Sequence[str]] = field(default_factory=dict)  # extension points with a list of their own
    weights: Mapping[str, int] = field(default_factory=dict)
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def plugins_at(self, point: str) -> Sequence[str]:
        """Return the plugin names of an extension point."""
        return self.points.get(point, self.plugin_names)

    def weight(self, name: str) -> int:
        """Return the score weight of a plugin; 1 by default."""
        return self.weights.get(name) or 1


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Configuration of all profiles of a process."""

    profiles: tuple[ProfileConfig, ...]
    extenders: tuple[ExtenderSettings, ...] = ()
    queue_timeouts: QueueTimeouts = field(default_factory=QueueTimeouts)
    features: Features = DEFAULT_FEATURES


def default_profile(scheduler_name: str = DEFAULT_NAME, features: Features = DEFAULT_FEATURES) -> ProfileConfig:
    """Return a profile with upstream's plugins, order and weights."""
    from kubeloop.scheduler.framework.registry import PLUGINS

    rows = {name: row for name, row in PLUGINS.items() if not row.gate or features.is_enabled(row.gate)}
    weights = {name: row.weight for name, row in rows.items() if row.weight}
    return ProfileConfig(scheduler_name, tuple(rows), weights=weights)


def default_config(features: Features = DEFAULT_FEATURES) -> SchedulerConfig:
    """Return a configuration with the default profile only."""
    return SchedulerConfig((default_profile(features=features),), features=features)
