"""How often a service is looked at because of its pods.

The first change is answered at once. The larger the service, the longer the rest before the next answer, in which
further changes gather: a thousand pods that come up one after the other cost some dozens of writes.
"""

from __future__ import annotations

from typing import Final

from kubeloop.clock import Clock
from kubeloop.runtime.objects.keys import ObjectKey

REST_FOR_EACH: Final = 0.0005  # seconds, for each endpoint of the service
SHORTEST_REST: Final = 0.005  # below which resting saves nothing
LONGEST_REST: Final = 1.0


class Pace:
    """When each service was last written, and how long it rests."""

    def __init__(self, clock: Clock, batch_period: float) -> None:
        self._clock = clock
        self._batch_period = batch_period
        self._rested: dict[ObjectKey, float] = {}  # until when, of those that have to rest at all

    def wait(self, key: ObjectKey) -> float:
        """Seconds until the service may be looked at."""
        rested = self._rested.get(key)
        if rested is None:
            return self._batch_period
        return max(self._batch_period, rested - self._clock.monotonic())

    def wrote(self, key: ObjectKey, endpoints: int) -> None:
        """A service with so many endpoints was written just now."""
        rest = rest_after(endpoints)
        if rest:
            self._rested[key] = self._clock.monotonic() + rest
        else:
            self._rested.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        self._rested.pop(key, None)


def rest_after(endpoints: int) -> float:
    """How long a service of that size rests after a write."""
    rest = min(LONGEST_REST, endpoints * REST_FOR_EACH)
    return rest if rest >= SHORTEST_REST else 0.0
