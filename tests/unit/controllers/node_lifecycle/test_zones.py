# SPDX-License-Identifier: Apache-2.0
"""Tests of zone states, rates and queues."""

from __future__ import annotations

import pytest

from kubeloop.controllers.node_lifecycle.zone_queues import RateLimitedTaintQueue, TaintTokenBucket
from kubeloop.controllers.node_lifecycle.zones import (
    DisruptionTransition,
    EvictionRates,
    ZoneState,
    ZoneTally,
    disruption_transition,
)

FULL, PARTIAL, NORMAL, INITIAL = ZoneState.FULL, ZoneState.PARTIAL, ZoneState.NORMAL, ZoneState.INITIAL


@pytest.mark.parametrize(
    ("size", "unready", "state"),
    [
        (1, 0, NORMAL),
        (1, 1, FULL),
        (3, 2, NORMAL),
        (4, 3, PARTIAL),
        (100, 54, NORMAL),
        (100, 55, PARTIAL),
        (0, 0, NORMAL),
    ],
)
def test_zone_state_depends_on_not_ready_count(size: int, unready: int, state: ZoneState) -> None:
    assert ZoneTally(size, unready).state(0.55) is state


@pytest.mark.parametrize(
    ("before", "after", "turn"),
    [
        ((), (), DisruptionTransition.AS_BEFORE),
        ((INITIAL,), (NORMAL,), DisruptionTransition.AS_BEFORE),
        ((INITIAL,), (FULL,), DisruptionTransition.ALL_LOST),
        ((NORMAL, NORMAL), (FULL, NORMAL), DisruptionTransition.AS_BEFORE),
        ((FULL, NORMAL), (FULL, FULL), DisruptionTransition.ALL_LOST),
        ((FULL, FULL), (FULL, FULL), DisruptionTransition.AS_BEFORE),
        ((FULL, FULL), (FULL, PARTIAL), DisruptionTransition.SOME_BACK),
    ],
)
def test_full_disruption_begins_with_the_last_zone_and_ends_with_the_first(
    before: tuple[ZoneState, ...], after: tuple[ZoneState, ...], turn: DisruptionTransition
) -> None:
    assert disruption_transition(dict(zip("ab", before, strict=False)), dict(zip("ab", after, strict=False))) is turn


def test_rates_depend_on_state_and_size() -> None:
    rates = EvictionRates(0.1, 0.01, 50)
    assert [rates.of(NORMAL, 5), rates.of(FULL, 5), rates.of(PARTIAL, 50), rates.of(PARTIAL, 51)] == [0.1, 0.1, 0, 0.01]


def test_bucket_gives_one_token_a_period() -> None:
    bucket = TaintTokenBucket(0.1, 0.0)
    assert bucket.take(0.0) == 0.0
    assert bucket.take(4.0) == pytest.approx(6.0)
    assert bucket.take(10.0) == 0.0
    assert bucket.take(1000.0) == 0.0
    assert bucket.take(1000.0) == pytest.approx(10.0)
    assert TaintTokenBucket(0.0, 0.0).take(1e9) is None


def test_changed_rate_adds_no_token() -> None:
    tainter = RateLimitedTaintQueue(0.1, 0.0)
    assert tainter.take(0.0) == 0.0
    tainter.swap_limiter(1.0, 0.0)
    assert tainter.take(0.0) == pytest.approx(1.0)
    tainter.swap_limiter(0.0, 2.0)
    tainter.swap_limiter(0.1, 3.0)
    assert tainter.take(3.0) == pytest.approx(10.0)


def test_node_is_queued_once_until_removed() -> None:
    tainter = RateLimitedTaintQueue(1.0, 0.0)
    assert tainter.add("a")
    assert not tainter.add("a")
    tainter.add("b")
    tainter.postpone("a")
    assert tainter.first == "b"
    tainter.mark_processed("b")
    assert not tainter.add("b")
    tainter.remove("b")
    assert tainter.add("b")
    tainter.remove("a")
    tainter.mark_processed("a")
    assert "a" not in tainter
