# SPDX-License-Identifier: Apache-2.0
"""Client-side rate limit."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kubeloop.clock import Clock

# kube-controller-manager's --kube-api-qps and --kube-api-burst.
DEFAULT_QPS = 20.0
DEFAULT_BURST = 30


class Limiter(Protocol):
    """Rate limiter."""

    async def wait(self) -> float:
        """Wait until a call is allowed; returns the seconds waited."""


class TokenBucket:
    """Token bucket of `burst` calls, refilled at `qps` per second; callers are served in order."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError("a rate limit needs a positive rate and a burst of at least one")
        self._clock = clock
        self._seconds_a_token = 1 / qps
        self._burst = burst
        # Time at which the bucket would be full again without further calls: each call adds one token's time.
        self._full_at = clock.monotonic()

    async def wait(self) -> float:
        """Take a token, waiting if there is none; returns the seconds waited."""
        delay = self._take()
        if delay <= 0:
            return 0.0
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self._full_at -= self._seconds_a_token  # return the unused token
            raise
        return delay

    def _take(self) -> float:
        now = self._clock.monotonic()
        self._full_at = max(self._full_at, now) + self._seconds_a_token
        return self._full_at - now - self._burst * self._seconds_a_token
