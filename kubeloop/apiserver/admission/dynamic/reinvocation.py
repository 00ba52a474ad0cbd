# SPDX-License-Identifier: Apache-2.0
"""Reinvocation of mutating policies and webhooks after a later one changed the object."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Reinvocation:
    """Reinvocation state of one write: if a second round is needed, and if this is it."""

    def __init__(self) -> None:
        self.is_needed = False
        self.is_second = False

    @property
    def number(self) -> int:
        """Round number: 0 or 1."""
        return int(self.is_second)


class ReinvocationContext:
    """Policies or webhooks that took part in the mutation of one write.

    `_seen` are the reinvocable ones that have seen all changes so far, `_to_ask` those that have not.
    """

    def __init__(self, reinvocation: Reinvocation) -> None:
        self._reinvocation = reinvocation
        self._seen: set[Hashable] = set()
        self._to_reinvoke: set[Hashable] = set()
        self._last: Any = None
        self._has_changed = False

    def begin(self, document: Any) -> None:
        """Start a round; in the second one, all are reinvoked if plugins have changed the object since."""
        if self._reinvocation.is_second and document != self._last:
            self._require_reinvocation()

    def should_invoke(self, who: Hashable) -> bool:
        """Return True if the participant is to be called in this round."""
        return not self._reinvocation.is_second or who in self._to_reinvoke

    def record_call(self, who: Hashable, *, changed: bool, comes_again: bool) -> None:
        """Record a call; a change requires that earlier reinvocable participants are called again."""
        if changed:
            self._has_changed = True
            self._require_reinvocation()
            self._reinvocation.is_needed = True
        if comes_again:
            self._seen.add(who)

    def end(self, document: Any) -> None:
        """Record the object at the end of a round."""
        self._last = document

    def require_after_change(self) -> None:
        """Require that all participants are called again if one has changed the object, even if it is the last."""
        if self._has_changed:
            self._require_reinvocation()

    def _require_reinvocation(self) -> None:
        self._to_reinvoke |= self._seen
        self._seen = set()
