"""A loop holds still until it sees its own writes, or has waited long enough."""

from __future__ import annotations

import pytest

from kubeloop.runtime.queue.expectations import Expectations
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual


@pytest.fixture
def expectations() -> Expectations[str]:
    loop = VirtualLoop()
    loop.close()
    return Expectations(VirtualClock(loop))


def test_nothing_expected_is_satisfied(expectations: Expectations[str]) -> None:
    assert expectations.satisfied("rs")
    expectations.creation_observed("rs")  # of somebody else's making
    assert expectations.of("rs") is None


def test_creations_are_awaited_one_by_one(expectations: Expectations[str]) -> None:
    expectations.expect_creations("rs", 2)
    assert not expectations.satisfied("rs")
    assert expectations.satisfied("another")
    expectations.creation_observed("rs")
    assert not expectations.satisfied("rs")
    expectations.creation_observed("rs")
    assert expectations.satisfied("rs")


def test_creations_that_failed_are_no_longer_expected(expectations: Expectations[str]) -> None:
    expectations.expect_creations("rs", 5)
    expectations.creation_observed("rs")
    expectations.lower("rs", creations=4)
    assert expectations.satisfied("rs")


def test_a_watch_quicker_than_the_loop_does_no_harm(expectations: Expectations[str]) -> None:
    expectations.expect_creations("rs", 1)
    expectations.creation_observed("rs")
    expectations.creation_observed("rs")
    assert expectations.satisfied("rs")
    expectations.raise_by("rs", creations=1)
    assert expectations.satisfied("rs")
    expectations.raise_by("rs", creations=1, deletions=1)
    assert not expectations.satisfied("rs")


def test_a_deletion_seen_twice_counts_once(expectations: Expectations[str]) -> None:
    expectations.expect_deletions("rs", ["u1", "u2", "u2"])
    expectations.deletion_observed("rs", "u1")
    expectations.deletion_observed("rs", "u1")
    expectations.deletion_observed("rs", "of nobody's wish")
    assert not expectations.satisfied("rs")
    expectations.deletion_observed("rs", "u2")
    assert expectations.satisfied("rs")


def test_a_new_expectation_replaces_the_old(expectations: Expectations[str]) -> None:
    expectations.expect_deletions("rs", ["u1"])
    expectations.expect_creations("rs", 1)
    expectations.deletion_observed("rs", "u1")
    expected = expectations.of("rs")
    assert expected is not None
    assert (expected.creations, expected.deletions) == (1, 0)


def test_a_forgotten_key_expects_nothing(expectations: Expectations[str]) -> None:
    expectations.expect_deletions("rs", ["u1"])
    expectations.forget("rs")
    assert expectations.satisfied("rs")


def test_after_five_minutes_the_loop_looks_for_itself() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        expectations = Expectations[str](VirtualClock(loop))
        expectations.expect_creations("rs", 1)
        await loop.advance(300)
        assert not expectations.satisfied("rs")
        await loop.advance(0.001)
        assert expectations.satisfied("rs")
        expectations.expect_creations("rs", 1)
        assert not expectations.satisfied("rs")

    run_virtual(main(), loop=loop)
