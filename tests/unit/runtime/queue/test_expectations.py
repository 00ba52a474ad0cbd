# SPDX-License-Identifier: Apache-2.0
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


def test_no_expectations_are_satisfied(expectations: Expectations[str]) -> None:
    assert expectations.is_satisfied("rs")
    expectations.creation_observed("rs")  # created by others
    assert expectations.get("rs") is None


def test_creations_are_awaited(expectations: Expectations[str]) -> None:
    expectations.expect_creations("rs", 2)
    assert not expectations.is_satisfied("rs")
    assert expectations.is_satisfied("another")
    expectations.creation_observed("rs")
    assert not expectations.is_satisfied("rs")
    expectations.creation_observed("rs")
    assert expectations.is_satisfied("rs")


def test_failed_creations_are_not_expected(expectations: Expectations[str]) -> None:
    expectations.expect_creations("rs", 5)
    expectations.creation_observed("rs")
    expectations.lower("rs", creations=4)
    assert expectations.is_satisfied("rs")


def test_early_watch_events_are_handled(expectations: Expectations[str]) -> None:
    expectations.expect_creations("rs", 1)
    expectations.creation_observed("rs")
    expectations.creation_observed("rs")
    assert expectations.is_satisfied("rs")
    expectations.raise_by("rs", creations=1)
    assert expectations.is_satisfied("rs")
    expectations.raise_by("rs", creations=1, deletions=1)
    assert not expectations.is_satisfied("rs")


def test_duplicate_deletion_counts_once(expectations: Expectations[str]) -> None:
    expectations.expect_deletions("rs", ["u1", "u2", "u2"])
    expectations.deletion_observed("rs", "u1")
    expectations.deletion_observed("rs", "u1")
    expectations.deletion_observed("rs", "of nobody's wish")
    assert not expectations.is_satisfied("rs")
    expectations.deletion_observed("rs", "u2")
    assert expectations.is_satisfied("rs")


def test_new_expectation_replaces_the_old_one(expectations: Expectations[str]) -> None:
    expectations.expect_deletions("rs", ["u1"])
    expectations.expect_creations("rs", 1)
    expectations.deletion_observed("rs", "u1")
    expected = expectations.get("rs")
    assert expected is not None
    assert (expected.creations, expected.deletions) == (1, 0)


def test_forgotten_key_has_no_expectations(expectations: Expectations[str]) -> None:
    expectations.expect_deletions("rs", ["u1"])
    expectations.delete("rs")
    assert expectations.is_satisfied("rs")


def test_expectations_expire_after_five_minutes() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        expectations = Expectations[str](VirtualClock(loop))
        expectations.expect_creations("rs", 1)
        await loop.advance(300)
        assert not expectations.is_satisfied("rs")
        await loop.advance(0.001)
        assert expectations.is_satisfied("rs")
        expectations.expect_creations("rs", 1)
        assert not expectations.is_satisfied("rs")

    run_virtual(main(), loop=loop)
