"""What a scheduler is told: its profiles with their plugins, and how patient it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubeloop.scheduler.config.extender_settings import ExtenderSettings
from kubeloop.scheduler.queue.scheduling_queue import Patience

DEFAULT_NAME: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """One profile: which plugins, in which order, where they are asked and how much their scores count."""

    scheduler_name: str = DEFAULT_NAME
    names: Sequence[str] = ()  # all of them, in order
    points: Mapping[str, Sequence[str]] = field(default_factory=dict)  # where a point has a list of its own
    weights: Mapping[str, int] = field(default_factory=dict)
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def at(self, point: str) -> Sequence[str]:
        return self.points.get(point, self.names)

    def weight(self, name: str) -> int:
        return self.weights.get(name) or 1


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """All profiles of a process."""

    profiles: tuple[ProfileConfig, ...]
    extenders: tuple[ExtenderSettings, ...] = ()
    patience: Patience = field(default_factory=Patience)


def default_profile(scheduler_name: str = DEFAULT_NAME) -> ProfileConfig:
    """Upstream's plugins, order and weights."""
    from kubeloop.scheduler.framework.registry import PLUGINS

    weights = {name: row.weight for name, row in PLUGINS.items() if row.weight}
    return ProfileConfig(scheduler_name, tuple(PLUGINS), weights=weights)


def default_config() -> SchedulerConfig:
    return SchedulerConfig((default_profile(),))
