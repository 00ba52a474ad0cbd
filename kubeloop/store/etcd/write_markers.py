"""Write markers: keys written in the same transaction, by which a retry finds out if an attempt was executed.

A put is found again by its bytes. A deletion leaves nothing, whichever client did it; and an unconditional put
may have been overwritten. Such a write puts a marker in the same transaction, under a key reserved for this server,
where the next attempt looks for it.

A key serves one write at a time, so there are as many as there were such writes at once. A lease ends them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from kubeloop.clock import Clock, new_uid

SECONDS = 60.0  # far longer than any retry


class WriteMarker:
    """Marker of one write. `doubtful` if an attempt was not answered: it may still write its marker later."""

    __slots__ = ("doubtful", "key", "mark")

    def __init__(self, key: bytes, mark: bytes) -> None:
        self.key = key
        self.mark = mark
        self.doubtful = False


class WriteMarkers:
    """Marker keys of one server."""

    def __init__(self, folder: bytes, clock: Clock) -> None:
        self._folder = folder + new_uid(clock).encode() + b"/"
        self._free: list[bytes] = []
        self._keys = count()
        self._marks = count()

    @contextmanager
    def one(self) -> Iterator[WriteMarker]:
        """Reserve a marker for the block."""
        key = self._free.pop() if self._free else self._folder + str(next(self._keys)).encode()
        witness = WriteMarker(key, str(next(self._marks)).encode())
        yield witness
        if not witness.doubtful:  # the outcome is known, so the key is free again
            self._free.append(key)
