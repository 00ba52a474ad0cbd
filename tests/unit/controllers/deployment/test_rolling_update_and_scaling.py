# SPDX-License-Identifier: Apache-2.0
"""Tests of replica set sizes: limits, rolling steps, proportions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.generated.apps_v1 import (
    Deployment,
    DeploymentStatus,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.deployment.limits import RolloutLimits, limits_of, max_replicas, min_available
from kubeloop.controllers.deployment.replica_sets import ReplicaSets, replicas_of, total_replicas
from kubeloop.controllers.deployment.rolling_update import new_replicas, plan_scale_down
from kubeloop.controllers.deployment.scaling import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    is_saturated,
    is_scaling_event,
    plan_scale,
)
from kubeloop.testing import deployment, replica_set

replace = msgspec.structs.replace


def rolling(replicas: int, surge: int | str | None = 0, unavailable: int | str | None = 0) -> Deployment:
    limits = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
    return deployment(replicas=replicas, strategy=DeploymentStrategy(type="RollingUpdate", rolling_update=limits))


def a_set(
    name: str, size: int, available: int | None = None, age: int = 0, *, desired: str = "none", most: str = "none"
) -> ReplicaSet:
    made = replica_set(name, replicas=size)
    stamp = Time(f"2026-01-01T00:00:{59 - age:02}Z")
    known = {DESIRED_REPLICAS: desired, MAX_REPLICAS: most}
    meta = replace(
        made.metadata,
        uid=name,
        creation_timestamp=stamp,
        annotations={key: value for key, value in known.items() if value != "none"},
    )
    return replace(
        made, metadata=meta, status=ReplicaSetStatus(available_replicas=size if available is None else available)
    )


def sizes(plan: list[Any]) -> dict[str, int]:
    return {one.replica_set.metadata.name: one.replicas for one in plan}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, 1, 1, (1, 1)),
        (10, "25%", "25%", (3, 2)),  # up, down
        (2, 0, "1%", (0, 1)),  # neither would let anything move
        (1, "0%", "1%", (0, 1)),
        (2, "1%", "25%", (1, 0)),
        (5, None, None, (0, 1)),
        (3, "200%", "200%", (6, 3)),  # no more can be unavailable than there are
        (0, 1, 1, (1, 0)),
    ],
)
def test_limits_in_pods(
    replicas: int, surge: int | str | None, unavailable: int | str | None, expected: tuple[int, int]
) -> None:
    assert limits_of(rolling(replicas, surge, unavailable)) == RolloutLimits(*expected)


def test_recreate_has_no_limits() -> None:
    one = deployment(replicas=3, strategy=DeploymentStrategy(type="Recreate"))
    assert (max_replicas(one), min_available(one)) == (3, 3)


@pytest.mark.parametrize(
    ("replicas", "surge", "old", "new", "expected"),
    [
        (10, 5, 8, 2, 7),  # as many as fit
        (10, 0, 10, 0, 0),  # none fits
        (10, 5, 0, 9, 10),  # never more than wanted
        (10, 5, 20, 0, 0),
        (5, 0, 0, 8, 5),  # too many already
        (0, 0, 0, 2, 0),
    ],
)
def test_new_replica_set_grows_within_the_limit(replicas: int, surge: int, old: int, new: int, expected: int) -> None:
    family = ReplicaSets(a_set("new", new), (a_set("old", old),))
    assert new_replicas(rolling(replicas, surge), family) == expected


@pytest.mark.parametrize(
    ("unavailable", "old", "old_available", "new", "new_available", "expected"),
    [
        (0, 10, 10, 0, 0, None),
        (2, 10, 10, 0, 0, 8),
        (2, 10, 8, 0, 0, 8),  # those that aren't available go
        (2, 10, 4, 0, 0, 8),  # and no more than may be missing
        (2, 10, 10, 5, 0, 8),  # unavailable new ones don't count
        (2, 8, 8, 5, 0, None),
        (2, 8, 8, 5, 5, 3),
        (2, 4, 10, 6, 6, 2),  # one that is yet to follow counts as what it will be
        (0, 4, 4, 10, 10, 0),
    ],
)
def test_old_replica_set_is_scaled_down_by_the_surplus(
    unavailable: int, old: int, old_available: int, new: int, new_available: int, expected: int | None
) -> None:
    family = ReplicaSets(a_set("new", new, new_available), (a_set("old", old, old_available),))
    plan = sizes(plan_scale_down(rolling(10, 5, unavailable), family))
    assert plan == ({} if expected is None else {"old": expected})


def test_unhealthy_pods_of_old_sets_are_scaled_down_first() -> None:
    old = (a_set("first", 3, 3, age=9), a_set("second", 4, 1, age=5))
    plan = sizes(plan_scale_down(rolling(5, 3, 1), ReplicaSets(a_set("new", 1, 0), old)))
    assert plan == {"second": 1}


def test_oldest_replica_sets_are_scaled_down_first() -> None:
    old = (a_set("first", 2, age=9), a_set("second", 4, age=5))
    plan = sizes(plan_scale_down(rolling(6, 0, 3), ReplicaSets(None, old)))
    assert plan == {"first": 0, "second": 3}


counts = st.integers(0, 12)


@given(counts, counts, counts, st.lists(st.tuples(counts, counts), max_size=3), st.tuples(counts, counts))
def test_no_step_violates_a_limit(
    replicas: int, surge: int, unavailable: int, olds: list[tuple[int, int]], new: tuple[int, int]
) -> None:
    one = rolling(replicas, surge, unavailable)
    old = tuple(a_set(f"old-{at}", size, min(size, up), age=at) for at, (size, up) in enumerate(olds))
    family = ReplicaSets(a_set("new", new[0], min(*new)), old)
    grown = new_replicas(one, family)
    if grown > new[0]:
        assert grown - new[0] + total_replicas(family.all) <= max_replicas(one)
    assert grown <= replicas
    plan = sizes(plan_scale_down(one, family))
    available = sum(one.status.available_replicas for one in family.all)
    lasting = sum(
        min(one.status.available_replicas, plan.get(one.metadata.name, replicas_of(one))) for one in family.all
    )
    assert lasting >= min(available, min_available(one))
    assert all(0 <= plan[one.metadata.name] < replicas_of(one) for one in old if one.metadata.name in plan)


# Proportions, as upstream's tables of the proportional scaling have them.


@pytest.mark.parametrize(
    ("before", "after", "new", "olds", "expected"),
    [
        (10, 12, 10, (), {"new": 12}),
        (10, 5, 10, (), {"new": 5}),
        (5, 8, 2, (3,), {"new": 3, "old-0": 5}),
        (10, 20, 0, (10,), {"old-0": 20}),
        (10, 5, 5, (3, 2), {"new": 2, "old-0": 2, "old-1": 1}),
        (5, 20, 0, (2, 3), {"old-0": 8, "old-1": 12}),
        (10, 0, 3, (3, 4), {"new": 0, "old-0": 0, "old-1": 0}),
    ],
)
def test_scaling_is_proportional(
    before: int, after: int, new: int, olds: tuple[int, ...], expected: dict[str, int]
) -> None:
    said = str(before)
    old = tuple(a_set(f"old-{at}", size, age=9 - at, desired=said, most=said) for at, size in enumerate(olds))
    family = ReplicaSets(a_set("new", new, 0, desired=said, most=said), old)
    assert is_scaling_event(rolling(after), family)
    assert sizes(plan_scale(rolling(after, 0, 1), family)) == expected


@given(counts, st.integers(0, 4), st.lists(st.integers(1, 12), min_size=2, max_size=4), st.integers(1, 30))
def test_all_allowed_replicas_are_distributed(replicas: int, surge: int, held: list[int], before: int) -> None:
    new, *olds = held
    said = str(before)
    old = tuple(a_set(f"old-{at}", size, 0, age=at, desired="99", most=said) for at, size in enumerate(olds))
    family = ReplicaSets(a_set("new", new, 0, desired="99", most=said), old)
    one = rolling(replicas, surge, 1)
    plan = sizes(plan_scale(one, family))
    assert all(size >= 0 for size in plan.values())
    allowed = max_replicas(one) if replicas else 0
    # Replicas beyond the largest set are left to the rollout.
    assert sum(plan.values()) == allowed or (sum(plan.values()) > allowed and min(plan.values()) == 0)


def test_missing_annotation_defaults_to_the_current_size() -> None:
    family = ReplicaSets(a_set("new", 5, desired="10"), (a_set("old", 5, desired="10"),))
    one = replace(rolling(20, 0, 1), status=DeploymentStatus(replicas=10))
    assert sizes(plan_scale(one, family)) == {"new": 10, "old": 10}


def test_saturated_replica_set_is_complete_and_annotated() -> None:
    one = rolling(3)
    assert is_saturated(one, a_set("a", 3, desired="3"))
    assert not is_saturated(one, a_set("a", 3, desired="5"))
    assert not is_saturated(one, a_set("a", 3))
    assert not is_saturated(one, a_set("a", 3, 2, desired="3"))
    assert not is_saturated(one, None)


def test_saturated_replica_set_scales_adopted_ones_down() -> None:
    family = ReplicaSets(a_set("new", 3, desired="3"), (a_set("stray", 2, desired="9"),))
    assert sizes(plan_scale(rolling(3), family)) == {"stray": 0}


@pytest.mark.parametrize("text", ["-1", "x", "", "1.5", "99999999999"])
def test_invalid_annotation_is_ignored(text: str) -> None:
    assert not is_scaling_event(rolling(3), ReplicaSets(a_set("a", 2, desired=text), ()))
