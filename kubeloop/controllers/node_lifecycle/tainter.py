"""Which nodes wait for the taint that makes their pods leave, zone by zone, each at its own rate."""

from __future__ import annotations

from typing import Final

BURST: Final = 1.0
_ROUNDING: Final = 1e-9


class Bucket:
    """A token every so often, one at most in store; none ever at a rate of zero."""

    def __init__(self, rate: float, now: float, *, empty: bool = False) -> None:
        self.rate = rate
        self._tokens = 0.0 if empty else BURST
        self._as_of = now

    def take(self, now: float) -> float | None:
        """0 if a token was taken, else the seconds until there is one, or None for never."""
        if self.rate <= 0:
            return None
        self._tokens = min(BURST, self._tokens + (now - self._as_of) * self.rate)
        self._as_of = now
        if self._tokens < BURST - _ROUNDING:
            return (BURST - self._tokens) / self.rate
        self._tokens -= BURST
        return 0.0

    def give_back(self) -> None:
        self._tokens = min(BURST, self._tokens + BURST)


class ZoneTainter:
    """Nodes of a zone in the order in which they failed.

    A node that had its turn is not taken again before it has been removed: it keeps its taint.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._bucket = Bucket(rate, now)
        self._waiting: dict[str, None] = {}
        self._had_turn: set[str] = set()  # apart from those that wait

    def add(self, node: str) -> bool:
        if node in self:
            return False
        self._waiting[node] = None
        return True

    def remove(self, node: str) -> None:
        self._waiting.pop(node, None)
        self._had_turn.discard(node)

    def __contains__(self, node: str) -> bool:
        return node in self._waiting or node in self._had_turn

    def had_turn(self, node: str) -> bool:
        return node in self._had_turn

    @property
    def first(self) -> str | None:
        return next(iter(self._waiting), None)

    def finish(self, node: str) -> None:
        """A node has had its turn; one that was removed meanwhile may come again."""
        if node in self._waiting:
            del self._waiting[node]
            self._had_turn.add(node)

    def postpone(self, node: str) -> None:
        """Others come first; that of a node that was removed meanwhile needs no word."""
        if node in self._waiting:
            del self._waiting[node]
            self._waiting[node] = None

    def take(self, now: float) -> float | None:
        """As `Bucket.take`."""
        return self._bucket.take(now)

    def give_back(self) -> None:
        """What was taken was not used."""
        self._bucket.give_back()

    def set_rate(self, rate: float, now: float) -> None:
        """Whoever waits for a token doesn't get one for nothing when the rate changes."""
        if rate != self._bucket.rate:
            self._bucket = Bucket(rate, now, empty=self._bucket.take(now) != 0.0)
