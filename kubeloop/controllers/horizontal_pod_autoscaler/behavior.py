"""How quickly an autoscaler follows its metrics: stabilization windows, rates and bounds. Pure but for its memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules

_FREE_FACTOR: Final = 2  # without a behavior, so many times the present pods may be asked for at once…
_FREE_MINIMUM: Final = 4  # …or so many
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

Told = tuple[str, str]  # reason and message


class Recommendation(NamedTuple):
    """What the metrics alone asked for."""

    replicas: int
    when: datetime


class Change(NamedTuple):
    """How many pods came or went by our doing."""

    replicas: int
    when: datetime


@dataclass(slots=True)
class Memory:
    """What one autoscaler remembers of its past; nothing older than anybody asks for."""

    recommendations: list[Recommendation] = field(default_factory=list)
    additions: list[Change] = field(default_factory=list)
    removals: list[Change] = field(default_factory=list)

    def begin(self, current: int, now: datetime) -> None:
        """The first thing known is the present size."""
        if not self.recommendations:
            self.recommendations.append(Recommendation(current, now))

    def recommend(self, replicas: int, now: datetime, keep: timedelta) -> None:
        self.recommendations = [one for one in self.recommendations if one.when >= now - keep]
        self.recommendations.append(Recommendation(replicas, now))

    def note_change(self, before: int, after: int, behavior: HorizontalPodAutoscalerBehavior, now: datetime) -> None:
        """Rates are limited by what has been done already."""
        if after > before:
            self.additions = [*_within(self.additions, _longest_period(behavior.scale_up), now)]
            self.additions.append(Change(after - before, now))
        else:
            self.removals = [*_within(self.removals, _longest_period(behavior.scale_down), now)]
            self.removals.append(Change(before - after, now))


class Bounds(NamedTuple):
    """What a user allows."""

    least: int
    most: int


class Wish(NamedTuple):
    """How many pods there are, and how many the metrics ask for."""

    current: int
    desired: int


class Normalized(NamedTuple):
    """A size that may be had, and what stood in the way of another."""

    replicas: int
    able: Told
    is_limited: bool
    limit: Told


def normalize(wish: Wish, bounds: Bounds, memory: Memory, window: timedelta, now: datetime) -> Normalized:
    """Without a behavior: down only to the highest recommendation of the window, up at most twofold at once."""
    current, desired = wish
    recent = [one.replicas for one in memory.recommendations if one.when >= now - window]
    stable = max((desired, *recent))
    memory.recommend(desired, now, window)
    able = READY if stable == desired else DOWN_STABILIZED
    free = max(_FREE_FACTOR * current, _FREE_MINIMUM)
    most, reason = (free, UP_LIMIT) if bounds.most > free else (bounds.most, TOO_MANY)
    if stable < bounds.least:
        return Normalized(bounds.least, able, True, TOO_FEW)
    if stable > most:
        return Normalized(most, able, True, reason)
    return Normalized(stable, able, False, WITHIN)


def normalize_by_behavior(wish: Wish, bounds: Bounds, memory: Memory, rules: Rules, now: datetime) -> Normalized:
    """With a behavior: between the lowest and the highest recommendation of its windows, at the rates it allows."""
    current, desired = wish
    stable = _stabilized(wish, memory, rules, now)
    if stable == desired:
        able = READY
    else:
        able = UP_STABILIZED if desired >= current else DOWN_STABILIZED
    replicas, limit = stable, WITHIN
    if stable > current:
        allowed = max(rate_limit_up(current, memory, rules.up, now), current)
        most, reason = (allowed, UP_LIMIT) if bounds.most > allowed else (bounds.most, TOO_MANY)
        if stable > most:
            replicas, limit = most, reason
    elif stable < current:
        allowed = min(rate_limit_down(current, memory, rules.down, now), current)
        least, reason = (allowed, DOWN_LIMIT) if bounds.least < allowed else (bounds.least, TOO_FEW)
        if stable < least:
            replicas, limit = least, reason
    return Normalized(replicas, able, replicas != stable, limit)


class Rules(NamedTuple):
    """A behavior, complete."""

    up: HPAScalingRules
    down: HPAScalingRules
    up_window: timedelta
    down_window: timedelta


def rules_of(behavior: HorizontalPodAutoscalerBehavior, down_window: timedelta) -> Rules:
    """A window for going down that isn't said is the manager's."""
    up, down = behavior.scale_up or HPAScalingRules(), behavior.scale_down or HPAScalingRules()
    said = down.stabilization_window_seconds
    return Rules(
        up,
        down,
        timedelta(seconds=up.stabilization_window_seconds or 0),
        down_window if said is None else timedelta(seconds=said),
    )


def _stabilized(wish: Wish, memory: Memory, rules: Rules, now: datetime) -> int:
    current, desired = wish

    def recent(window: timedelta) -> Iterable[int]:
        return (one.replicas for one in memory.recommendations if one.when > now - window)

    lowest = min((desired, *recent(rules.up_window)))
    highest = max((desired, *recent(rules.down_window)))
    memory.recommend(desired, now, max(rules.up_window, rules.down_window))
    return min(max(current, lowest), highest)


def rate_limit_up(current: int, memory: Memory, rules: HPAScalingRules, now: datetime) -> int:
    """How many pods there may be at most; percentages are rounded up, lest a few pods never become more."""
    if rules.select_policy == "Disabled" or not rules.policies:
        return current
    proposals = [_up(_at_start(current, memory, one, now), one) for one in rules.policies]
    return min(proposals) if rules.select_policy == "Min" else max(proposals)


def rate_limit_down(current: int, memory: Memory, rules: HPAScalingRules, now: datetime) -> int:
    """How many pods have to stay."""
    if rules.select_policy == "Disabled" or not rules.policies:
        return current
    proposals = [_down(_at_start(current, memory, one, now), one) for one in rules.policies]
    return max(proposals) if rules.select_policy == "Min" else min(proposals)


def _up(start: int, policy: HPAScalingPolicy) -> int:
    return start + policy.value if policy.type == "Pods" else math.ceil(start * (1 + policy.value / 100))


def _down(start: int, policy: HPAScalingPolicy) -> int:
    return start - policy.value if policy.type == "Pods" else int(start * (1 - policy.value / 100))


def _at_start(current: int, memory: Memory, policy: HPAScalingPolicy, now: datetime) -> int:
    """How many pods there were when the policy's period began, as far as we changed it."""
    added = sum(one.replicas for one in _within(memory.additions, policy.period_seconds, now))
    removed = sum(one.replicas for one in _within(memory.removals, policy.period_seconds, now))
    return current - added + removed


def _within(changes: Sequence[Change], seconds: int, now: datetime) -> list[Change]:
    return [one for one in changes if one.when > now - timedelta(seconds=seconds)]


def _longest_period(rules: HPAScalingRules | None) -> int:
    return max((one.period_seconds for one in rules.policies), default=0) if rules is not None else 0
