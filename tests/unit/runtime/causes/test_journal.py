# SPDX-License-Identifier: Apache-2.0
"""Tests of the journal: relevant entries are kept longest."""

from __future__ import annotations

from kubeloop.runtime.causes.cause import Cause, Origin, RecordedWrite
from kubeloop.runtime.causes.journal import Journal
from kubeloop.sim.loop import START

WHY = (Origin("Pod", "d", "a", "1", "ADDED"),)
WROTE = (RecordedWrite("create", "pods", "d", "a", "2"),)


def write(journal: Journal, key: str, result: str = "success", writes: tuple[RecordedWrite, ...] = ()) -> None:
    journal.append(START, Cause("loop", key, WHY, writes), result, 0.1)


def test_entries_of_all_kinds_are_in_order() -> None:
    journal = Journal()
    write(journal, "a")
    write(journal, "b", writes=WROTE)
    write(journal, "c", result="error")
    write(journal, "d")
    assert [entry.key for entry in journal.entries()] == ["a", "b", "c", "d"]
    assert [entry.number for entry in journal.entries()] == [1, 2, 3, 4]


def test_idle_reconciles_do_not_evict_relevant_ones() -> None:
    journal = Journal(active=3, quiet=2)
    write(journal, "wrote", writes=WROTE)
    write(journal, "failed", result="error")
    for number in range(100):
        write(journal, str(number))
    assert [entry.key for entry in journal.entries()] == ["wrote", "failed", "98", "99"]


def test_journal_is_bounded() -> None:
    journal = Journal(active=3, quiet=2)
    for number in range(100):
        write(journal, str(number), writes=WROTE)
    assert [entry.key for entry in journal.entries()] == ["97", "98", "99"]
    assert journal.written == 100


def test_journal_can_be_filtered_by_controller_and_key() -> None:
    journal = Journal()
    write(journal, "a")
    write(journal, "b")
    journal.append(START, Cause("another", "a"), "success", 0)
    assert [entry.number for entry in journal.entries(key="a")] == [1, 3]
    assert [entry.number for entry in journal.entries(controller="loop", key="a")] == [1]
