"""Committed records in key order, and pages of them now or at an older revision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import islice

from sortedcontainers import SortedList

from kubeloop.store.base import Record, StoreEvent


class Keyspace:
    """Dictionary for lookups, with a sorted list of the same keys for ranges."""

    def __init__(self, records: dict[str, Record]) -> None:
        self._records = records
        self._keys = SortedList(records)
        self.get = records.get  # bound once: a lookup costs no extra Python frame

    def records(self) -> list[Record]:
        """Return all records, in no particular order."""
        return list(self._records.values())

    def copy(self) -> dict[str, Record]:
        """Return a copy as a dictionary in key order."""
        records = self._records
        return {key: records[key] for key in self._keys}

    def apply(self, event: StoreEvent) -> None:
        """Apply one committed event."""
        if event.record is None:
            del self._records[event.key]
            self._keys.remove(event.key)
            return
        if event.previous is None:
            self._keys.add(event.key)
        self._records[event.key] = event.record

    def page(
        self, prefix: str, start_after: str, limit: int, undo: Mapping[str, Record | None]
    ) -> tuple[list[Record], int]:
        """Return records under a prefix with `undo` applied, and how many follow the page."""
        end = _end_of(prefix)
        if start_after and start_after >= prefix:
            keys = self._keys.irange(start_after, end, (False, False))
        else:
            keys = self._keys.irange(prefix, end, (True, False))
        if undo:
            keys = self._keys_before(keys, undo, start_after)
        wanted = islice(keys, limit) if limit else keys
        if undo:
            page = [undo.get(key) or self._records[key] for key in wanted]
        else:
            records = self._records
            page = [records[key] for key in wanted]
        if not limit or len(page) < limit:
            return page, 0
        return page, self._count(page[-1].key, end, undo)

    def _keys_before(self, keys: Iterator[str], undo: Mapping[str, Record | None], start_after: str) -> Iterator[str]:
        deleted_since = sorted(key for key in undo if key > start_after and self._existed_only_then(key, undo))
        return (key for key in merge(keys, deleted_since) if undo.get(key, self) is not None)

    def _existed_only_then(self, key: str, undo: Mapping[str, Record | None]) -> bool:
        return undo[key] is not None and key not in self._records

    def _count(self, after: str, end: str | None, undo: Mapping[str, Record | None]) -> int:
        stop = len(self._keys) if end is None else self._keys.bisect_left(end)
        count: int = stop - self._keys.bisect_right(after)
        for key, record in undo.items():
            if key > after:
                count += (record is not None) - (key in self._records)
        return count


def _end_of(prefix: str) -> str | None:
    """Return the first string after all with the prefix; None if there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        if (code := ord(prefix[index])) < 0x10FFFF:
            return prefix[:index] + chr(code + 1)
    return None
