# SPDX-License-Identifier: Apache-2.0
"""Expectations: creations and deletions requested but not yet seen in the cache, so that none is repeated.

A controller that creates or deletes dependents sets how many it expects to see; its handlers lower the numbers as
they see them. Until all are seen the cache is older than the controller's own writes, and the controller waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from kubeloop.clock import Clock

Key = TypeVar("Key", bound=Hashable)

TIMEOUT = 300.0  # seconds after which expectations expire and the controller trusts its cache again


class KeyExpectations:
    """Expectations of one key. Numbers below zero count as zero: a watch may be quicker than the controller."""

    __slots__ = ("creations", "deletions", "since", "uids")

    def __init__(self, creations: int, deletions: int, uids: set[str], since: float) -> None:
        self.creations = creations
        self.deletions = deletions
        self.uids = uids  # whose deletion is expected and wasn't seen; never more of them than were counted
        self.since = since

    @property
    def is_fulfilled(self) -> bool:
        """True if all creations and deletions were observed."""
        return self.creations <= 0 and self.deletions <= 0


class Expectations(Generic[Key]):
    """Expectations of all keys of one controller.

    Deletions are identified by UID, because one may be observed twice: at the deletion timestamp, and at its end.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_key: dict[Key, KeyExpectations] = {}

    def expect(self, key: Key, creations: int = 0, deletions: int = 0) -> None:
        """Set the expectations of a key, replacing earlier ones."""
        self._by_key[key] = KeyExpectations(creations, deletions, set(), self._clock.monotonic())

    def expect_creations(self, key: Key, count: int) -> None:
        """Expect a number of creations."""
        self.expect(key, creations=count)

    def expect_deletions(self, key: Key, uids: Iterable[str]) -> None:
        """Expect the deletion of the objects with these UIDs."""
        wanted = set(uids)
        self.expect(key, deletions=len(wanted))
        self._by_key[key].uids = wanted

    def lower(self, key: Key, creations: int = 0, deletions: int = 0) -> None:
        """Lower expectations: observed by a handler, or not to come because the request failed."""
        self.raise_by(key, -creations, -deletions)

    def raise_by(self, key: Key, creations: int = 0, deletions: int = 0) -> None:
        """Raise expectations without extending their timeout."""
        expected = self._by_key.get(key)
        if expected is not None:
            expected.creations += creations
            expected.deletions += deletions

    def creation_observed(self, key: Key) -> None:
        """Count one creation as observed."""
        self.lower(key, creations=1)

    def deletion_observed(self, key: Key, uid: str) -> None:
        """Count an expected object's deletion as observed, once."""
        expected = self._by_key.get(key)
        if expected is not None and uid in expected.uids:
            expected.uids.remove(uid)
            expected.deletions -= 1

    def delete(self, key: Key) -> None:
        """Delete the expectations of a key that is gone."""
        self._by_key.pop(key, None)

    def get(self, key: Key) -> KeyExpectations | None:
        """Return the expectations of a key."""
        return self._by_key.get(key)

    def is_satisfied(self, key: Key) -> bool:
        """Return True if the cache shows the controller's own writes, or the timeout has passed."""
        expected = self._by_key.get(key)
        if expected is None or expected.is_fulfilled:
            return True
        return self._clock.monotonic() - expected.since > TIMEOUT
