"""How zones are, what follows, and whose turn it is."""

from __future__ import annotations

import pytest

from kubeloop.controllers.node_lifecycle.tainter import RateLimitedTaintQueue, TaintTokenBucket
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
def test_state_of_a_zone_is_by_how_many_are_not_ready(size: int, unready: int, state: ZoneState) -> None:
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
def test_turn_is_when_the_last_zone_is_lost_or_the_first_back(
    before: tuple[ZoneState, ...], after: tuple[ZoneState, ...], turn: DisruptionTransition
) -> None:
    assert disruption_transition(dict(zip("ab", before, strict=False)), dict(zip("ab", after, strict=False))) is turn


def test_rates_are_by_state_and_size() -> None:
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


def test_change_of_rate_gives_no_token_for_nothing() -> None:
    tainter = RateLimitedTaintQueue(0.1, 0.0)
    assert tainter.take(0.0) == 0.0
    tainter.set_rate(1.0, 0.0)
    assert tainter.take(0.0) == pytest.approx(1.0)
    tainter.set_rate(0.0, 2.0)
    tainter.set_rate(0.1, 3.0)
    assert tainter.take(3.0) == pytest.approx(10.0)


def test_node_has_one_turn_until_it_is_removed() -> None:
    tainter = RateLimitedTaintQueue(1.0, 0.0)
    assert tainter.add("a")
    assert not tainter.add("a")
    tainter.add("b")
    tainter.postpone("a")
    assert tainter.first == "b"
    tainter.finish("b")
    assert not tainter.add("b")
    tainter.remove("b")
    assert tainter.add("b")
    tainter.remove("a")
    tainter.finish("a")
    assert "a" not in tainter
