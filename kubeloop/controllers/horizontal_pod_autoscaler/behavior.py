# SPDX-License-Identifier: Apache-2.0
"""Limits scaling by stabilization windows, rates and bounds. Pure except for the recorded history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules

_FREE_FACTOR: Final = 2  # without a behavior, this multiple of the current size is allowed at once,
_FREE_MINIMUM: Final = 4  # but at least this many
WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
UP_LIMIT: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
DOWN_LIMIT: Final = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
READY: Final = ("ReadyForNewScale", "recommended size matches current size")
UP_STABILIZED: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
DOWN_STABILIZED: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)

ReasonAndMessage = tuple[str, str]  # reason and message


class Recommendation(NamedTuple):
    """Number of replicas that the metrics required at a time."""

    replicas: int
    when: datetime


class ScaleEvent(NamedTuple):
    """Number of replicas that the controller added or removed at a time."""

    replicas: int
    when: datetime


@dataclass(slots=True)
class ScaleHistory:
    """Recommendations and scale events of one autoscaler, as far back as needed."""

    recommendations: list[Recommendation] = field(default_factory=list)
    additions: list[ScaleEvent] = field(default_factory=list)
    removals: list[ScaleEvent] = field(default_factory=list)

    def record_initial(self, current: int, now: datetime) -> None:
        """Record the current size as the first recommendation."""
        if not self.recommendations:
            self.recommendations.append(Recommendation(current, now))

    def record_recommendation(self, replicas: int, now: datetime, keep: timedelta) -> None:
        """Record a recommendation and drop old ones."""
        self.recommendations = [one for one in self.recommendations if one.when >= now - keep]
        self.recommendations.append(Recommendation(replicas, now))

    def record_scale_event(
        self, before: int, after: int, behavior: HorizontalPodAutoscalerBehavior, now: datetime
    ) -> None:
        """Record a scale event, since rates are limited by earlier ones."""
        if after > before:
            self.additions = [*_within(self.additions, _longest_period(behavior.scale_up), now)]
            self.additions.append(ScaleEvent(after - before, now))
        else:
            self.removals = [*_within(self.removals, _longest_period(behavior.scale_down), now)]
            self.removals.append(ScaleEvent(before - after, now))


class ReplicaBounds(NamedTuple):
    """Minimum and maximum number of replicas."""

    min_replicas: int
    max_replicas: int


class ReplicaChange(NamedTuple):
    """Current number of replicas, and the number that the metrics require."""

    current: int
    desired: int


class NormalizedReplicas(NamedTuple):
    """Permitted number of replicas, with the reasons of the conditions."""

    replicas: int
    able: ReasonAndMessage
    is_limited: bool
    limit: ReasonAndMessage


def normalize_desired_replicas(
    wish: ReplicaChange, bounds: ReplicaBounds, memory: ScaleHistory, window: timedelta, now: datetime
) -> NormalizedReplicas:
    """Limit without a behavior: down to the highest recent recommendation, up to twice the size at once."""
    current, desired = wish
    recent = [one.replicas for one in memory.recommendations if one.when >= now - window]
    stable = max((desired, *recent))
    memory.record_recommendation(desired, now, window)
    able = READY if stable == desired else DOWN_STABILIZED
    free = max(_FREE_FACTOR * current, _FREE_MINIMUM)
    most, reason = (free, UP_LIMIT) if bounds.max_replicas > free else (bounds.max_replicas, TOO_MANY)
    if stable < bounds.min_replicas:
        return NormalizedReplicas(bounds.min_replicas, able, True, TOO_FEW)
    if stable > most:
        return NormalizedReplicas(most, able, True, reason)
    return NormalizedReplicas(stable, able, False, WITHIN)


def normalize_desired_replicas_with_behaviors(
    wish: ReplicaChange, bounds: ReplicaBounds, memory: ScaleHistory, rules: ResolvedBehavior, now: datetime
) -> NormalizedReplicas:
    """Limit with a behavior: between the lowest and highest recommendation of its windows, at its rates."""
    current, desired = wish
    stable = _stabilized(wish, memory, rules, now)
    if stable == desired:
        able = READY
    else:
        able = UP_STABILIZED if desired >= current else DOWN_STABILIZED
    replicas, limit = stable, WITHIN
    if stable > current:
        allowed = max(scale_up_limit(current, memory, rules.up, now), current)
        most, reason = (allowed, UP_LIMIT) if bounds.max_replicas > allowed else (bounds.max_replicas, TOO_MANY)
        if stable > most:
            replicas, limit = most, reason
    elif stable < current:
        allowed = min(scale_down_limit(current, memory, rules.down, now), current)
        least, reason = (allowed, DOWN_LIMIT) if bounds.min_replicas < allowed else (bounds.min_replicas, TOO_FEW)
        if stable < least:
            replicas, limit = least, reason
    return NormalizedReplicas(replicas, able, replicas != stable, limit)


class ResolvedBehavior(NamedTuple):
    """Behavior with all defaults resolved."""

    up: HPAScalingRules
    down: HPAScalingRules
    up_window: timedelta
    down_window: timedelta


def rules_of(behavior: HorizontalPodAutoscalerBehavior, down_window: timedelta) -> ResolvedBehavior:
    """Resolve a behavior; the default window for scaling down is the manager's."""
    up, down = behavior.scale_up or HPAScalingRules(), behavior.scale_down or HPAScalingRules()
    said = down.stabilization_window_seconds
    return ResolvedBehavior(
        up,
        down,
        timedelta(seconds=up.stabilization_window_seconds or 0),
        down_window if said is None else timedelta(seconds=said),
    )


def _stabilized(wish: ReplicaChange, memory: ScaleHistory, rules: ResolvedBehavior, now: datetime) -> int:
    current, desired = wish

    def recent(window: timedelta) -> Iterable[int]:
        return (one.replicas for one in memory.recommendations if one.when > now - window)

    lowest = min((desired, *recent(rules.up_window)))
    highest = max((desired, *recent(rules.down_window)))
    memory.record_recommendation(desired, now, max(rules.up_window, rules.down_window))
    return min(max(current, lowest), highest)


def scale_up_limit(current: int, memory: ScaleHistory, rules: HPAScalingRules, now: datetime) -> int:
    """Return the maximum size; percentages are rounded up, so that a few pods can grow."""
    if rules.select_policy == "Disabled" or not rules.policies:
        return current
    proposals = [_up(_at_start(current, memory, one, now), one) for one in rules.policies]
    return min(proposals) if rules.select_policy == "Min" else max(proposals)


def scale_down_limit(current: int, memory: ScaleHistory, rules: HPAScalingRules, now: datetime) -> int:
    """Return the minimum size."""
    if rules.select_policy == "Disabled" or not rules.policies:
        return current
    proposals = [_down(_at_start(current, memory, one, now), one) for one in rules.policies]
    return max(proposals) if rules.select_policy == "Min" else min(proposals)


def _up(start: int, policy: HPAScalingPolicy) -> int:
    return start + policy.value if policy.type == "Pods" else math.ceil(start * (1 + policy.value / 100))


def _down(start: int, policy: HPAScalingPolicy) -> int:
    return start - policy.value if policy.type == "Pods" else int(start * (1 - policy.value / 100))


def _at_start(current: int, memory: ScaleHistory, policy: HPAScalingPolicy, now: datetime) -> int:
    """Return the number of replicas when the policy's period began, according to the recorded events."""
    added = sum(one.replicas for one in _within(memory.additions, policy.period_seconds, now))
    removed = sum(one.replicas for one in _within(memory.removals, policy.period_seconds, now))
    return current - added + removed


def _within(changes: Sequence[ScaleEvent], seconds: int, now: datetime) -> list[ScaleEvent]:
    return [one for one in changes if one.when > now - timedelta(seconds=seconds)]


def _longest_period(rules: HPAScalingRules | None) -> int:
    return max((one.period_seconds for one in rules.policies or ()), default=0) if rules is not None else 0
