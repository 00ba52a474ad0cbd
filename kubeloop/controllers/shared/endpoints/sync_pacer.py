# SPDX-License-Identifier: Apache-2.0
"""Limits how often pod changes trigger a sync of a Service.

The first change is handled at once. The larger the Service, the longer the pause before the next sync, in which
further changes are batched: a thousand pods that start one after the other cost some dozens of writes.
"""

from __future__ import annotations

from typing import Final

from kubeloop.clock import Clock
from kubeloop.runtime.objects.keys import ObjectKey

PAUSE_PER_ENDPOINT: Final = 0.0005  # seconds per endpoint of the Service
MIN_PAUSE: Final = 0.005  # shorter pauses save nothing
MAX_PAUSE: Final = 1.0


class SyncPacer:
    """Records when each Service was last written and until when it pauses."""

    def __init__(self, clock: Clock, batch_period: float) -> None:
        self._clock = clock
        self._batch_period = batch_period
        self._rested: dict[ObjectKey, float] = {}  # end of the pause by Service, only for those that pause

    def delay(self, key: ObjectKey) -> float:
        """Return the seconds until the Service may be synced."""
        rested = self._rested.get(key)
        if rested is None:
            return self._batch_period
        return max(self._batch_period, rested - self._clock.monotonic())

    def record_write(self, key: ObjectKey, endpoints: int) -> None:
        """Record that a Service with this number of endpoints was written just now."""
        rest = pause_after(endpoints)
        if rest:
            self._rested[key] = self._clock.monotonic() + rest
        else:
            self._rested.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted Service."""
        self._rested.pop(key, None)


def pause_after(endpoints: int) -> float:
    """Return the pause in seconds after a write of a Service of this size."""
    rest = min(MAX_PAUSE, endpoints * PAUSE_PER_ENDPOINT)
    return rest if rest >= MIN_PAUSE else 0.0
