# SPDX-License-Identifier: Apache-2.0
"""Exponential backoff with jitter that resets after a healthy period."""

from __future__ import annotations

from kubeloop.clock import Clock

# client-go's numbers for reflectors.
FIRST = 0.8
LONGEST = 30.0
FACTOR = 2.0
# Without a failure for this long the server counts as healthy again.
HEALTHY_AFTER = 120.0


class Backoff:
    """Delays between `first` and `longest`, each with jitter up to twice its length."""

    def __init__(
        self, clock: Clock, *, first: float = FIRST, longest: float = LONGEST, healthy_after: float = HEALTHY_AFTER
    ) -> None:
        self._clock = clock
        self._first = first
        self._longest = longest
        self._healthy_after = healthy_after
        self._next = first
        self._last_failure = clock.monotonic()

    def delay(self) -> float:
        """Return the seconds to wait after one more failure."""
        now = self._clock.monotonic()
        if now - self._last_failure > self._healthy_after:
            self._next = self._first
        self._last_failure = now
        base, self._next = self._next, min(self._next * FACTOR, self._longest)
        return base * (1 + self._clock.random().random())
