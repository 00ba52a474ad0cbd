# SPDX-License-Identifier: Apache-2.0
"""Stabilization windows, rates and bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules
from kubeloop.controllers.horizontal_pod_autoscaler.behavior import (
    Recommendation,
    ReplicaBounds,
    ReplicaChange,
    ScaleHistory,
    normalize_desired_replicas,
    normalize_desired_replicas_with_behaviors,
    rules_of,
    scale_down_limit,
    scale_up_limit,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = timedelta(minutes=5)


def ago(seconds: int) -> datetime:
    return NOW - timedelta(seconds=seconds)


def rules(*policies: tuple[str, int, int], select: str = "Max", window: int | None = 0) -> HPAScalingRules:
    made = tuple(HPAScalingPolicy(type=kind, value=value, period_seconds=period) for kind, value, period in policies)
    return HPAScalingRules(policies=made, select_policy=select, stabilization_window_seconds=window)


@pytest.mark.parametrize(
    ("current", "desired", "replicas", "reason"),
    [
        (2, 3, 3, "DesiredWithinRange"),
        (2, 9, 4, "ScaleUpLimit"),
        (10, 19, 19, "DesiredWithinRange"),
        (10, 25, 20, "ScaleUpLimit"),
        (40, 70, 50, "TooManyReplicas"),
        (9, 1, 2, "TooFewReplicas"),
    ],
)
def test_bounds_without_a_behavior(current: int, desired: int, replicas: int, reason: str) -> None:
    found = normalize_desired_replicas(
        ReplicaChange(current, desired), ReplicaBounds(2, 50), ScaleHistory(), WINDOW, NOW
    )
    assert (found.replicas, found.limit[0], found.is_limited) == (replicas, reason, reason != "DesiredWithinRange")


def test_highest_recommendation_of_the_window_applies() -> None:
    memory = ScaleHistory([Recommendation(9, ago(400)), Recommendation(7, ago(200))])
    found = normalize_desired_replicas(ReplicaChange(8, 3), ReplicaBounds(1, 10), memory, WINDOW, NOW)
    assert (found.replicas, found.able[0]) == (7, "ScaleDownStabilized")
    assert [one.replicas for one in memory.recommendations] == [7, 3]


def test_behavior_windows_apply_in_both_directions() -> None:
    behavior = HorizontalPodAutoscalerBehavior(
        scale_up=rules(("Percent", 100, 15), window=60), scale_down=rules(("Percent", 100, 15), window=120)
    )
    made = rules_of(behavior, WINDOW)
    memory = ScaleHistory([Recommendation(4, ago(30)), Recommendation(9, ago(90))])
    up = normalize_desired_replicas_with_behaviors(ReplicaChange(5, 8), ReplicaBounds(1, 10), memory, made, NOW)
    assert (up.replicas, up.able[0]) == (5, "ScaleUpStabilized")
    memory = ScaleHistory([Recommendation(4, ago(30)), Recommendation(9, ago(90))])
    down = normalize_desired_replicas_with_behaviors(ReplicaChange(10, 2), ReplicaBounds(1, 10), memory, made, NOW)
    assert (down.replicas, down.able[0]) == (9, "ScaleDownStabilized")


def test_default_window_is_the_flags() -> None:
    behavior = HorizontalPodAutoscalerBehavior(scale_down=rules(("Pods", 1, 15), window=None))
    assert rules_of(behavior, WINDOW).down_window == WINDOW


@pytest.mark.parametrize(
    ("select", "up", "down"),
    [("Max", 20, 5), ("Min", 14, 6), ("Disabled", 10, 10)],
)
def test_select_policy_is_honored(select: str, up: int, down: int) -> None:
    assert scale_up_limit(10, ScaleHistory(), rules(("Pods", 4, 60), ("Percent", 100, 60), select=select), NOW) == up
    assert scale_down_limit(10, ScaleHistory(), rules(("Pods", 4, 60), ("Percent", 50, 60), select=select), NOW) == down


def test_percentage_of_few_pods_is_rounded_up() -> None:
    assert scale_up_limit(1, ScaleHistory(), rules(("Percent", 10, 60)), NOW) == 2
    assert scale_down_limit(3, ScaleHistory(), rules(("Percent", 50, 60)), NOW) == 1


def test_scaling_within_the_period_counts() -> None:
    behavior = HorizontalPodAutoscalerBehavior(scale_up=rules(("Pods", 4, 60)), scale_down=rules(("Pods", 2, 60)))
    memory = ScaleHistory()
    memory.record_scale_event(5, 8, behavior, ago(30))
    assert scale_up_limit(8, memory, rules(("Pods", 4, 60)), NOW) == 9
    assert scale_up_limit(8, memory, rules(("Pods", 4, 20)), NOW) == 12
    memory.record_scale_event(8, 7, behavior, ago(10))
    assert scale_down_limit(7, memory, rules(("Pods", 2, 15)), NOW) == 6
    memory.record_scale_event(7, 9, behavior, NOW + timedelta(seconds=60))
    assert [one.replicas for one in memory.additions] == [2]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 50))
def test_size_stays_in_bounds_and_history_is_bounded(wishes: list[int], least: int, more: int) -> None:
    memory, current, bounds = ScaleHistory(), least, ReplicaBounds(least, least + more)
    behavior = HorizontalPodAutoscalerBehavior(scale_up=rules(("Pods", 3, 60)), scale_down=rules(("Pods", 2, 60)))
    made = rules_of(behavior, WINDOW)
    for at, wish in enumerate(wishes):
        now = NOW + timedelta(seconds=15 * at)
        found = normalize_desired_replicas_with_behaviors(ReplicaChange(current, wish), bounds, memory, made, now)
        assert least <= found.replicas <= least + more
        if found.replicas != current:
            memory.record_scale_event(current, found.replicas, behavior, now)
        current = found.replicas
        assert len(memory.recommendations) <= 22
        assert len(memory.additions) + len(memory.removals) <= 10
