"""Patience with pods that fail again and again on the same node, as those that the node itself refuses do."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.clock import Clock

FIRST: Final = 1.0  # seconds between two replacements of failed pods…
LONGEST: Final = 900.0  # …doubled each time, up to this
FORGOTTEN_AFTER: Final = 2 * LONGEST
SWEEP_EVERY: Final = 60.0  # so that many failures cost no more than few

Place = tuple[str, int, str]  # of which set, at which generation, on which node


class _Wait(NamedTuple):
    since: float
    seconds: float


class FailedPodsBackoff:
    """When failed pods may be replaced, for each place."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[Place, _Wait] = {}
        self._swept = clock.monotonic()

    def seconds_left(self, place: Place) -> float:
        """How long a failed pod has to stay; nothing for the first one at a place."""
        wait = self._waits.get(place)
        return 0.0 if wait is None else max(0.0, wait.since + wait.seconds - self._clock.monotonic())

    def replaced(self, place: Place) -> None:
        """A failed pod is being replaced: the next one has to wait."""
        now = self._clock.monotonic()
        self._sweep(now)
        before = self._waits.get(place)
        if before is None or now - before.since > FORGOTTEN_AFTER:
            self._waits[place] = _Wait(now, FIRST)
        else:
            self._waits[place] = _Wait(now, min(2 * before.seconds, LONGEST))

    def _sweep(self, now: float) -> None:
        """Forget places where nothing has failed for long."""
        if now - self._swept < SWEEP_EVERY:
            return
        self._swept = now
        self._waits = {place: one for place, one in self._waits.items() if now - one.since <= FORGOTTEN_AFTER}
