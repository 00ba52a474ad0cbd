# SPDX-License-Identifier: Apache-2.0
"""Measures the time of an attempt by extension point."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Stopwatch:
    """Accumulates durations by extension point."""

    __slots__ = ("_last", "_now", "_spent")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = now()
        self._spent: dict[str, float] = {}

    def lap(self, point: str) -> None:
        """Add the time since the last call to an extension point."""
        now = self._now()
        self._spent[point] = self._spent.get(point, 0.0) + now - self._last
        self._last = now

    def skip(self) -> None:
        """Discard the time since the last call."""
        self._last = self._now()

    @property
    def durations(self) -> Mapping[str, float]:
        """Seconds by extension point."""
        return self._spent
