# SPDX-License-Identifier: Apache-2.0
"""Backoff for pods that fail repeatedly on the same node, such as those that the kubelet rejects."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.clock import Clock

INITIAL_BACKOFF: Final = 1.0  # seconds between two replacements of failed pods
MAX_BACKOFF: Final = 900.0  # limit of the doubled backoff
FORGOTTEN_AFTER: Final = 2 * MAX_BACKOFF
SWEEP_EVERY: Final = 60.0  # so that the cost does not grow with the number of failures

BackoffKey = tuple[str, int, str]  # UID of the set, its generation, and the node


class _Wait(NamedTuple):
    since: float
    seconds: float


class FailedPodsBackoffManager:
    """Backoff of failed pods by set, generation and node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[BackoffKey, _Wait] = {}
        self._swept = clock.monotonic()

    def seconds_left(self, place: BackoffKey) -> float:
        """Return the seconds before a failed pod may be replaced; 0 for the first one."""
        wait = self._waits.get(place)
        return 0.0 if wait is None else max(0.0, wait.since + wait.seconds - self._clock.monotonic())

    def record_replacement(self, place: BackoffKey) -> None:
        """Record the replacement of a failed pod and extend the backoff."""
        now = self._clock.monotonic()
        self._sweep(now)
        before = self._waits.get(place)
        if before is None or now - before.since > FORGOTTEN_AFTER:
            self._waits[place] = _Wait(now, INITIAL_BACKOFF)
        else:
            self._waits[place] = _Wait(now, min(2 * before.seconds, MAX_BACKOFF))

    def _sweep(self, now: float) -> None:
        """Drop entries without a recent failure."""
        if now - self._swept < SWEEP_EVERY:
            return
        self._swept = now
        self._waits = {place: one for place, one in self._waits.items() if now - one.since <= FORGOTTEN_AFTER}
