"""How long an attempt takes at each extension point."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Stopwatch:
    """Time goes to the extension point that is named when it has passed."""

    __slots__ = ("_last", "_now", "_spent")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = now()
        self._spent: dict[str, float] = {}

    def lap(self, point: str) -> None:
        now = self._now()
        self._spent[point] = self._spent.get(point, 0.0) + now - self._last
        self._last = now

    def skip(self) -> None:
        """What has passed was spent on something else."""
        self._last = self._now()

    @property
    def spent(self) -> Mapping[str, float]:
        return self._spent
