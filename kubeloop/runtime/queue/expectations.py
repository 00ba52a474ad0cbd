"""What a loop has asked for and not yet seen in its cache: so that it doesn't ask twice.

A loop that creates or deletes dependents says how many it expects to see; its handlers lower the numbers as they see
them. Until all are seen the cache is older than the loop's own writes, and the loop holds still.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from kubeloop.clock import Clock

Key = TypeVar("Key", bound=Hashable)

TIMEOUT = 300.0  # after which something went wrong that no waiting repairs, and the loop looks for itself


class Expected:
    """What one key waits for. Numbers below zero are as good as zero: a watch may be quicker than the loop."""

    __slots__ = ("creations", "deletions", "since", "uids")

    def __init__(self, creations: int, deletions: int, uids: set[str], since: float) -> None:
        self.creations = creations
        self.deletions = deletions
        self.uids = uids  # whose deletion is expected and wasn't seen; never more of them than were counted
        self.since = since

    @property
    def fulfilled(self) -> bool:
        return self.creations <= 0 and self.deletions <= 0


class Expectations(Generic[Key]):
    """Of all keys of one loop. Deletions are told apart by UID, because one may be seen twice: as it begins (a
    deletion timestamp), and as it ends.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[Key, Expected] = {}

    def expect(self, key: Key, creations: int = 0, deletions: int = 0) -> None:
        """Expect this, instead of whatever was expected before."""
        self._of[key] = Expected(creations, deletions, set(), self._clock.monotonic())

    def expect_creations(self, key: Key, count: int) -> None:
        self.expect(key, creations=count)

    def expect_deletions(self, key: Key, uids: Iterable[str]) -> None:
        """Expect the end of these very objects."""
        wanted = set(uids)
        self.expect(key, deletions=len(wanted))
        self._of[key].uids = wanted

    def lower(self, key: Key, creations: int = 0, deletions: int = 0) -> None:
        """Expect less: seen by a handler, or known not to come because the request failed."""
        self.raise_by(key, -creations, -deletions)

    def raise_by(self, key: Key, creations: int = 0, deletions: int = 0) -> None:
        """Expect more than was said, with the same patience."""
        expected = self._of.get(key)
        if expected is not None:
            expected.creations += creations
            expected.deletions += deletions

    def creation_observed(self, key: Key) -> None:
        self.lower(key, creations=1)

    def deletion_observed(self, key: Key, uid: str) -> None:
        """Counts once for an object, and only if its end was expected."""
        expected = self._of.get(key)
        if expected is not None and uid in expected.uids:
            expected.uids.remove(uid)
            expected.deletions -= 1

    def forget(self, key: Key) -> None:
        """The key is gone."""
        self._of.pop(key, None)

    def of(self, key: Key) -> Expected | None:
        return self._of.get(key)

    def satisfied(self, key: Key) -> bool:
        """Whether the cache shows the loop's own writes, or it is no use to wait any longer."""
        expected = self._of.get(key)
        if expected is None or expected.fulfilled:
            return True
        return self._clock.monotonic() - expected.since > TIMEOUT
