"""Who is asked once more about a write, because somebody after them changed it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Reinvocation:
    """Of one write: whether there is a second round, and if so whether this is it."""

    def __init__(self) -> None:
        self.is_needed = False
        self.is_second = False

    @property
    def number(self) -> int:
        return int(self.is_second)


class Participants:
    """Those of one kind, webhooks or policies, that took part.

    `_seen` are those who would come again and have seen all changes so far, `_to_ask` those who haven't.
    """

    def __init__(self, reinvocation: Reinvocation) -> None:
        self._reinvocation = reinvocation
        self._seen: set[Hashable] = set()
        self._to_ask: set[Hashable] = set()
        self._last: Any = None

    def begin(self, document: Any) -> None:
        """At the start of a round; in the second one, plugins may have changed the object since."""
        if self._reinvocation.is_second and document != self._last:
            self._all_again()

    def is_asked(self, who: Hashable) -> bool:
        return not self._reinvocation.is_second or who in self._to_ask

    def took_part(self, who: Hashable, *, changed: bool, comes_again: bool) -> None:
        if changed:
            self._all_again()
            self._reinvocation.is_needed = True
        if comes_again:
            self._seen.add(who)

    def end(self, document: Any) -> None:
        self._last = document

    def _all_again(self) -> None:
        self._to_ask |= self._seen
        self._seen = set()
