"""Queue of nodes that wait for a NoExecute taint in one zone, with a rate limit."""

from __future__ import annotations

from typing import Final

BURST: Final = 1.0
_ROUNDING: Final = 1e-9


class TaintTokenBucket:
    """Token bucket with a capacity of one; a rate of zero never yields a token."""

    def __init__(self, rate: float, now: float, *, empty: bool = False) -> None:
        self.rate = rate
        self._tokens = 0.0 if empty else BURST
        self._as_of = now

    def take(self, now: float) -> float | None:
        """Take a token and return 0, or return the seconds until there is one, or None for never."""
        if self.rate <= 0:
            return None
        self._tokens = min(BURST, self._tokens + (now - self._as_of) * self.rate)
        self._as_of = now
        if self._tokens < BURST - _ROUNDING:
            return (BURST - self._tokens) / self.rate
        self._tokens -= BURST
        return 0.0

    def give_back(self) -> None:
        """Return an unused token."""
        self._tokens = min(BURST, self._tokens + BURST)


class RateLimitedTaintQueue:
    """Nodes of a zone in the order in which they failed.

    A node that was processed is not taken again before it has been removed: it keeps its taint.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._bucket = TaintTokenBucket(rate, now)
        self._waiting: dict[str, None] = {}
        self._had_turn: set[str] = set()  # separate from those that wait

    def add(self, node: str) -> bool:
        """Add a node; returns False if it is already known."""
        if node in self:
            return False
        self._waiting[node] = None
        return True

    def remove(self, node: str) -> None:
        """Remove a node."""
        self._waiting.pop(node, None)
        self._had_turn.discard(node)

    def __contains__(self, node: str) -> bool:
        return node in self._waiting or node in self._had_turn

    def had_turn(self, node: str) -> bool:
        """Return True if the node was processed."""
        return node in self._had_turn

    @property
    def first(self) -> str | None:
        """First waiting node, or None."""
        return next(iter(self._waiting), None)

    def finish(self, node: str) -> None:
        """Mark a node as processed; one that was removed meanwhile may be added again."""
        if node in self._waiting:
            del self._waiting[node]
            self._had_turn.add(node)

    def postpone(self, node: str) -> None:
        """Move a node to the end of the queue, unless it was removed meanwhile."""
        if node in self._waiting:
            del self._waiting[node]
            self._waiting[node] = None

    def take(self, now: float) -> float | None:
        """Take a token as `Bucket.take` does."""
        return self._bucket.take(now)

    def give_back(self) -> None:
        """Return an unused token."""
        self._bucket.give_back()

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate; a waiting zone does not get a token by that."""
        if rate != self._bucket.rate:
            self._bucket = TaintTokenBucket(rate, now, empty=self._bucket.take(now) != 0.0)
