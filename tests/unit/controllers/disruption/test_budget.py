# SPDX-License-Identifier: Apache-2.0
"""Tests of allowed disruptions with plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Pod, PodCondition, PodStatus
from kubeloop.api.generated.meta_v1 import Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kubeloop.api.scalars.intstr import IntOrStringError
from kubeloop.api.scalars.wire import Time
from kubeloop.api.selectors.objects import go_debug_string
from kubeloop.controllers.disruption.budget import (
    BudgetCounts,
    count_healthy,
    desired_healthy,
    evictions_of,
    failure_patch,
    needs_scale,
    status_patch,
)
from kubeloop.controllers.disruption.stale_targets import is_target, seconds_until_stale

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
STAMP = Time("2026-01-01T01:00:00Z")
EARLIER = Time("2026-01-01T00:00:00Z")


def pod(name: str, ready: bool = True, leaving: bool = False) -> Pod:
    meta = ObjectMeta(name=name, deletion_timestamp=STAMP if leaving else None)
    return Pod(metadata=meta, status=PodStatus(conditions=(PodCondition(type="Ready", status=str(ready)),)))


def budget(**status: Any) -> PodDisruptionBudget:
    meta = ObjectMeta(name="b", namespace="n", uid="u", resource_version="7", generation=2)
    return PodDisruptionBudget(metadata=meta, status=PodDisruptionBudgetStatus(observed_generation=2, **status))


@given(st.integers(0, 500), st.integers(0, 100))
def test_percentages_are_rounded_up(expected: int, percent: int) -> None:
    rounded = -(-expected * percent // 100)
    assert desired_healthy(PodDisruptionBudgetSpec(min_available=f"{percent}%"), expected) == rounded
    assert desired_healthy(PodDisruptionBudgetSpec(max_unavailable=f"{percent}%"), expected) == expected - rounded


def test_empty_budget_requires_nothing() -> None:
    assert desired_healthy(PodDisruptionBudgetSpec(), 5) == 0
    assert not needs_scale(PodDisruptionBudgetSpec())


def test_invalid_percentage_is_rejected() -> None:
    with pytest.raises(IntOrStringError, match="string is not a percentage"):
        desired_healthy(PodDisruptionBudgetSpec(min_available="many"), 5)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_allowed_disruptions_are_healthy_minus_desired(healthy: int, desired: int, expected: int) -> None:
    allowed = BudgetCounts(healthy, desired, expected, {}).allowed
    assert allowed == (max(0, healthy - desired) if expected else 0)


def test_healthy_pods_are_ready_and_not_terminating() -> None:
    pods = [pod("a"), pod("b"), pod("c", ready=False), pod("d", leaving=True)]
    assert count_healthy(pods, {"b": STAMP}) == 1


def test_disrupted_pods_are_tracked_until_deleted_or_expired() -> None:
    announced = {
        "gone": Time("2026-01-01T00:59:50Z"),
        "leaving": Time("2026-01-01T00:59:50Z"),
        "soon": Time("2026-01-01T00:59:00Z"),
        "later": Time("2026-01-01T00:59:30Z"),
        "stays": Time("2026-01-01T00:58:00Z"),
    }
    pods = [pod("leaving", leaving=True), pod("soon"), pod("later"), pod("stays"), pod("other")]
    found = evictions_of(budget(disrupted_pods=announced), pods, NOW)
    assert set(found.pending) == {"soon", "later"}
    assert [one.metadata.name for one in found.failed] == ["stays"]
    assert found.recheck_after == 60


def test_patch_has_the_evaluated_version_and_drops_settled_evictions() -> None:
    patch = status_patch(budget(disrupted_pods={"gone": EARLIER}), BudgetCounts(3, 2, 3, {"a": EARLIER}), NOW)
    assert patch is not None
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7"}
    status = patch["status"]
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (1, {"a": EARLIER, "gone": None})
    (condition,) = status["conditions"]
    assert condition["reason"] == "SufficientPods"
    assert condition["lastTransitionTime"] == STAMP


def test_condition_keeps_its_time_while_its_status_stays() -> None:
    told = Condition(type="DisruptionAllowed", status="False", reason="SyncFailed", last_transition_time=EARLIER)
    patch = status_patch(budget(conditions=(told,)), BudgetCounts(1, 2, 3, {}), NOW)
    assert patch is not None
    (condition,) = patch["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("InsufficientPods", EARLIER)


def test_unchanged_status_is_not_written() -> None:
    told = Condition(type="DisruptionAllowed", status="False", reason="InsufficientPods")
    current = budget(conditions=(told,), current_healthy=1, desired_healthy=2, expected_pods=3)
    assert status_patch(current, BudgetCounts(1, 2, 3, {}), NOW) is None
    assert status_patch(current, BudgetCounts(2, 2, 3, {}), NOW) is not None


def test_failure_disallows_disruptions_and_is_reported_once() -> None:
    patch = failure_patch(budget(disruptions_allowed=2), "why", NOW)
    assert patch is not None
    assert patch["status"]["disruptionsAllowed"] == 0
    (condition,) = patch["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "SyncFailed", "why")
    told = Condition(
        type="DisruptionAllowed",
        status="False",
        reason="SyncFailed",
        message="why",
        observed_generation=2,
        last_transition_time=EARLIER,
    )
    assert failure_patch(budget(conditions=(told,)), "why", NOW) is None
    assert failure_patch(budget(conditions=(told,)), "another", NOW) is not None


def test_disruption_condition_is_valid_for_two_minutes() -> None:
    said = PodCondition(type="DisruptionTarget", status="True", last_transition_time=Time("2026-01-01T00:59:00Z"))
    one = Pod(status=PodStatus(conditions=(said,)))
    assert is_target(one)
    assert seconds_until_stale(one, NOW) == 60
    assert seconds_until_stale(Pod(), NOW) == 0
    assert not is_target(Pod())


def test_selector_is_formatted_like_go() -> None:
    expression = LabelSelectorRequirement(key="tier", operator="In", values=("x", "y"))
    selector = LabelSelector(match_labels={"b": "2", "a": "1"}, match_expressions=(expression,))
    assert go_debug_string(selector) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:tier,Operator:In,Values:[x y],},},}"
    )
    assert go_debug_string(None) == "nil"
