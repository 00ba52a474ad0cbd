# SPDX-License-Identifier: Apache-2.0
"""Tests of retry delays, with client-go's numbers."""

from __future__ import annotations

import pytest

from kubeloop.runtime.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    default_controller_rate_limiter,
)
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual


def test_each_failure_of_a_key_doubles_its_delay_up_to_a_limit() -> None:
    limiter = ItemExponentialFailureRateLimiter[str](base=1, longest=10)
    assert [limiter.when("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert limiter.when("b") == 1
    assert (limiter.retries("a"), limiter.retries("b"), limiter.retries("c")) == (6, 1, 0)


def test_forgotten_key_starts_from_scratch() -> None:
    limiter = ItemExponentialFailureRateLimiter[str](base=1, longest=10)
    for _ in range(3):
        limiter.when("a")
    limiter.forget("a")
    assert (limiter.retries("a"), limiter.when("a")) == (0, 1)


def test_many_failures_give_the_maximum_delay() -> None:
    limiter = ItemExponentialFailureRateLimiter[str]()
    for _ in range(10_000):
        delay = limiter.when("a")
    assert delay == 1000


def test_bucket_allows_a_burst_then_spaces_evenly() -> None:
    loop = VirtualLoop()
    bucket = BucketRateLimiter(VirtualClock(loop), qps=10, burst=3)
    assert [bucket.when("any") for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    loop.close()


def test_bucket_refills_up_to_its_burst() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        bucket = BucketRateLimiter(VirtualClock(loop), qps=10, burst=3)
        for _ in range(5):
            bucket.when("any")
        await loop.advance(0.3)  # pays back the two promised, and one more
        assert [bucket.when("any") for _ in range(2)] == pytest.approx([0, 0.1])
        await loop.advance(1000)
        assert [bucket.when("any") for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])

    run_virtual(main(), loop=loop)


def test_longest_delay_of_several_limiters_applies() -> None:
    slow, fast = (
        ItemExponentialFailureRateLimiter[str](base=1, longest=10),
        ItemExponentialFailureRateLimiter[str](base=0.1, longest=100),
    )
    limiter = MaxOfRateLimiter(slow, fast)
    assert [limiter.when("a") for _ in range(9)][-1] == pytest.approx(25.6)
    assert limiter.retries("a") == 9
    limiter.forget("a")
    assert (slow.retries("a"), fast.retries("a"), limiter.retries("a")) == (0, 0, 0)


def test_default_limiter_combines_backoff_and_bucket() -> None:
    loop = VirtualLoop()
    limiter = default_controller_rate_limiter(VirtualClock(loop))
    assert [limiter.when(number) for number in range(100)] == pytest.approx([0.005] * 100)
    assert [limiter.when(number) for number in range(100, 103)] == pytest.approx([0.1, 0.2, 0.3])
    loop.close()
