# SPDX-License-Identifier: Apache-2.0
"""Rate limiters of retries: per key by its failures, and overall."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from kubeloop.clock import Clock

Key = TypeVar("Key")
AnyKey = TypeVar("AnyKey", contravariant=True)

FIRST_DELAY = 0.005
LONGEST_DELAY = 1000.0
RETRIES_PER_SECOND = 10.0
RETRY_BURST = 100
_ENOUGH_DOUBLINGS = 64  # past every sensible limit, and 2**64 still fits a float


class RateLimiter(Protocol[AnyKey]):
    """Decides when a key may be retried."""

    def when(self, key: AnyKey) -> float:
        """Return the seconds to wait for this retry; each call counts as one."""

    def forget(self, key: AnyKey) -> None:
        """Reset the failures of a key that has succeeded or was given up."""

    def retries(self, key: AnyKey) -> int:
        """Return the failures of the key since it was last forgotten."""


class ItemExponentialFailureRateLimiter(Generic[Key]):
    """Doubles a key's delay with each failure."""

    def __init__(self, base: float = FIRST_DELAY, longest: float = LONGEST_DELAY) -> None:
        self._base = base
        self._longest = longest
        self._failures: dict[Key, int] = {}  # only keys that have failed since they were last forgotten

    def when(self, key: Key) -> float:
        """Return the delay and count a failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._longest, self._base * 2.0 ** min(failures, _ENOUGH_DOUBLINGS))

    def forget(self, key: Key) -> None:
        """Reset the failures of a key."""
        self._failures.pop(key, None)

    def retries(self, key: Key) -> int:
        """Return the failures of a key."""
        return self._failures.get(key, 0)


class BucketRateLimiter:
    """Token bucket shared by all keys; without a token a key waits for a reserved one."""

    def __init__(self, clock: Clock, qps: float = RETRIES_PER_SECOND, burst: int = RETRY_BURST) -> None:
        self._clock = clock
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)  # at `_as_of`; never above the burst, below zero by as much as is promised already
        self._as_of = clock.monotonic()

    def when(self, _key: object) -> float:
        """Reserve a token and return the seconds until it is available."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._as_of) * self._qps) - 1
        self._as_of = now
        return max(0.0, -self._tokens / self._qps)

    def forget(self, _key: object) -> None:
        """Do nothing: tokens are spent for good."""

    def retries(self, _key: object) -> int:
        """Return 0: failures are not counted."""
        return 0


class MaxOfRateLimiter(Generic[Key]):
    """Longest delay of several limiters."""

    def __init__(self, *limiters: RateLimiter[Key]) -> None:
        self._limiters = limiters

    def when(self, key: Key) -> float:
        """Return the longest delay."""
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: Key) -> None:
        """Forget the key in all limiters."""
        for limiter in self._limiters:
            limiter.forget(key)

    def retries(self, key: Key) -> int:
        """Return the highest count."""
        return max(limiter.retries(key) for limiter in self._limiters)


def default_controller_rate_limiter(clock: Clock) -> RateLimiter[object]:
    """Return client-go's default limiter for controllers."""
    return MaxOfRateLimiter[object](ItemExponentialFailureRateLimiter[object](), BucketRateLimiter(clock))
