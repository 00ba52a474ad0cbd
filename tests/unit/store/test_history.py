# SPDX-License-Identifier: Apache-2.0
"""The bounded history: what it replays, undoes and lets go."""

from __future__ import annotations

from kubeloop.store.base import Record, StoreEvent
from kubeloop.store.history import EVENT_OVERHEAD_BYTES, EventHistory


def put(revision: int, key: str, previous: StoreEvent | None = None, size: int = 0) -> StoreEvent:
    created = previous.record.create_revision if previous and previous.record else revision
    return StoreEvent(revision, key, Record(key, bytes(size), created, revision), previous.record if previous else None)


def deletion(revision: int, previous: StoreEvent) -> StoreEvent:
    return StoreEvent(revision, previous.key, None, previous.record)


def compacted(history: EventHistory, revision: int) -> list[int]:
    history.compact_revision = revision
    return history.sweep(100)


def test_garbage_precedes_its_deletion() -> None:
    first = put(2, "/a")
    second = put(3, "/a", first)
    history = EventHistory(1, 1000_000)
    history.extend([first, second, deletion(4, second), put(5, "/a")])
    assert compacted(history, 4) == [2, 3, 4]
    assert [event.revision for event in history.since(4)] == [5]


def test_a_current_value_is_never_garbage() -> None:
    history = EventHistory(1, 1000_000)
    history.extend([put(2, "/a"), put(3, "/b")])
    assert compacted(history, 3) == []


def test_sweep_takes_a_slice_of_compacted_entries() -> None:
    history = EventHistory(1, 1000_000)
    history.extend([put(revision, f"/{revision}") for revision in range(2, 12)])
    history.compact_revision = 9
    history.sweep(5)
    assert history.has_compacted
    assert [event.revision for event in history.since(9)] == [10, 11]
    history.sweep(5)
    assert not history.has_compacted
    assert len(history) == 2


def test_undo_reverts_several_changes_of_one_key() -> None:
    first = put(2, "/a")
    second = put(3, "/a", first)
    history = EventHistory(1, 1000_000)
    history.extend([first, second, deletion(4, second), put(5, "/b")])
    assert history.undo(1) == {"/a": None, "/b": None}
    assert history.undo(2) == {"/a": first.record, "/b": None}
    assert history.undo(3, "/a") == {"/a": second.record}
    assert history.undo(5) == {}


def test_only_historic_values_count_against_the_limit() -> None:
    big = put(2, "/a", size=10_000)
    history = EventHistory(1, 5000)
    history.extend([big])
    assert history.excess_revision() == 0
    history.extend([put(3, "/a", big)])
    assert history.excess_revision() == 3
    compacted(history, 3)
    assert history.excess_revision() == 0


def test_trimming_goes_below_the_limit() -> None:
    cost = EVENT_OVERHEAD_BYTES + 2
    history = EventHistory(1, cost * 80)
    history.extend([put(revision, "/a") for revision in range(2, 82)])
    assert history.excess_revision() == 0
    history.extend([put(82, "/a")])
    assert history.excess_revision() == 12  # eleven of eighty-one go, seventy stay
