"""A client that holds itself back: so many calls a second, some at once."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kubeloop.clock import Clock

# kube-controller-manager's --kube-api-qps and --kube-api-burst.
DEFAULT_QPS = 20.0
DEFAULT_BURST = 30


class Limiter(Protocol):
    """Makes callers wait for their turn."""

    async def wait(self) -> float:
        """Returns when the caller may go on: the seconds it had to wait."""


class TokenBucket:
    """`burst` calls at once, refilled at `qps` a second; callers get their turns in the order they came."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError("a rate limit needs a positive rate and a burst of at least one")
        self._clock = clock
        self._seconds_a_token = 1 / qps
        self._burst = burst
        # When the bucket would be full again if nobody came: each call moves it on by one token's time.
        self._full_at = clock.monotonic()

    async def wait(self) -> float:
        delay = self._take()
        if delay <= 0:
            return 0.0
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self._full_at -= self._seconds_a_token  # the turn was not used
            raise
        return delay

    def _take(self) -> float:
        now = self._clock.monotonic()
        self._full_at = max(self._full_at, now) + self._seconds_a_token
        return self._full_at - now - self._burst * self._seconds_a_token
