# SPDX-License-Identifier: Apache-2.0
"""Cache of webhooks' answers: bounded, and each entry has its own time to live."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from kubeloop.clock import Clock

T = TypeVar("T")


class ExpiringCache(Generic[T]):
    """Maps keys to values for some seconds; a full cache drops the least recently used entry."""

    def __init__(self, clock: Clock, size: int) -> None:
        self._clock = clock
        self._size = size
        self._entries: OrderedDict[bytes, tuple[float, T]] = OrderedDict()

    def get(self, key: bytes) -> T | None:
        """Return a value that has not expired, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock.monotonic():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: bytes, value: T, seconds: float) -> None:
        """Keep a value for some seconds; for none, if there are none."""
        if seconds <= 0:
            return
        self._entries[key] = (self._clock.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
