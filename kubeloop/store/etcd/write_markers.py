"""Marks that writes leave beside what they do, for a writer that did not hear the answer and asks whether it was done.

What a write has put is found again by its bytes. What it has deleted is gone, whoever did it; and what it has put
without a condition may be under somebody else's by now. Such a write puts a mark of its own in the same transaction,
under a key that this server has for itself, where the next attempt looks for it.

A key serves one write at a time, so there are as many as there ever were such writes at once. A lease ends them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from kubeloop.clock import Clock, new_uid

SECONDS = 60.0  # far longer than anybody tries


class Witness:
    """One write's mark. `doubtful` if an attempt was not answered: it may still come, and leave its mark later on."""

    __slots__ = ("doubtful", "key", "mark")

    def __init__(self, key: bytes, mark: bytes) -> None:
        self.key = key
        self.mark = mark
        self.doubtful = False


class Witnesses:
    """The keys that one server leaves marks under."""

    def __init__(self, folder: bytes, clock: Clock) -> None:
        self._folder = folder + new_uid(clock).encode() + b"/"
        self._free: list[bytes] = []
        self._keys = count()
        self._marks = count()

    @contextmanager
    def one(self) -> Iterator[Witness]:
        key = self._free.pop() if self._free else self._folder + str(next(self._keys)).encode()
        witness = Witness(key, str(next(self._marks)).encode())
        yield witness
        if not witness.doubtful:  # nor failed: then nobody else uses the key
            self._free.append(key)
