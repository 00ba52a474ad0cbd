"""The journal remembers what matters longest."""

from __future__ import annotations

from kubeloop.runtime.causes.cause import Origin, RecordedWrite
from kubeloop.runtime.causes.journal import Journal
from kubeloop.sim.loop import START

WHY = (Origin("Pod", "d", "a", "1", "ADDED"),)
WROTE = (RecordedWrite("create", "pods", "d", "a", "2"),)


def write(journal: Journal, key: str, result: str = "success", writes: tuple[RecordedWrite, ...] = ()) -> None:
    journal.write(START, "loop", key, WHY, writes, result, 0.1)


def test_entries_come_in_order_whatever_their_sort() -> None:
    journal = Journal()
    write(journal, "a")
    write(journal, "b", writes=WROTE)
    write(journal, "c", result="error")
    write(journal, "d")
    assert [entry.key for entry in journal.entries()] == ["a", "b", "c", "d"]
    assert [entry.number for entry in journal.entries()] == [1, 2, 3, 4]


def test_quiet_reconciles_do_not_push_out_those_that_wrote_or_failed() -> None:
    journal = Journal(active=3, quiet=2)
    write(journal, "wrote", writes=WROTE)
    write(journal, "failed", result="error")
    for number in range(100):
        write(journal, str(number))
    assert [entry.key for entry in journal.entries()] == ["wrote", "failed", "98", "99"]


def test_it_stays_within_its_bounds() -> None:
    journal = Journal(active=3, quiet=2)
    for number in range(100):
        write(journal, str(number), writes=WROTE)
    assert [entry.key for entry in journal.entries()] == ["97", "98", "99"]
    assert journal.written == 100


def test_one_can_ask_for_one_loop_and_one_key() -> None:
    journal = Journal()
    write(journal, "a")
    write(journal, "b")
    journal.write(START, "another", "a", (), (), "success", 0)
    assert [entry.number for entry in journal.entries(key="a")] == [1, 3]
    assert [entry.number for entry in journal.entries(controller="loop", key="a")] == [1]
