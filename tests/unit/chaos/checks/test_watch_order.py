# SPDX-License-Identifier: Apache-2.0
"""Tests of watch checks: repeated, decreasing, missed and disagreeing events, and wrong final states."""

from __future__ import annotations

from kubeloop.chaos.checks.history import ClientOperation
from kubeloop.chaos.checks.watch_order import SeenEvent, watch_problems

CREATED = ClientOperation(key="k", action="create", outcome="ok", called=0, returned=1, mark="a")
UPDATED = ClientOperation(key="k", action="update", outcome="ok", called=2, returned=3, mark="b")


def event(revision: int, mark: str, type: str = "MODIFIED", key: str = "k") -> SeenEvent:
    return SeenEvent(type=type, key=key, mark=mark, revision=revision)


GOOD = [event(1, "a", "ADDED"), event(2, "b")]


def problems(*watches: list[SeenEvent], present: str = "b") -> list[str]:
    named = {f"w{number}": events for number, events in enumerate(watches)}
    return watch_problems(named, [CREATED, UPDATED], {"k": present} if present else {})


def test_complete_watch_is_no_problem() -> None:
    assert problems(GOOD, GOOD) == []
    assert problems([*GOOD, event(3, "b", "DELETED")], present="") == []


def test_repeated_event_is_a_problem() -> None:
    found = problems([*GOOD, GOOD[-1]])
    assert "the watch of w0 delivered revision 2 after 2" in found
    assert "the watch of w0 delivered the update that made k b 2 times" in found


def test_decreasing_revision_is_a_problem() -> None:
    assert "the watch of w0 delivered revision 1 after 2" in problems(GOOD[::-1])


def test_missed_event_is_a_problem_even_without_acknowledgement() -> None:
    extra = event(3, "b", "ADDED", key="other")
    found = watch_problems({"w0": GOOD, "w1": [*GOOD, extra]}, [], {"k": "b", "other": "b"})
    assert "the watch of w0 missed ADDED of other at revision 3" in found


def test_undelivered_acknowledged_write_is_a_problem() -> None:
    assert problems(GOOD[:1], present="a") == ["the watch of w0 delivered the update that made k b 0 times"]


def test_disagreeing_watches_are_a_problem() -> None:
    found = problems(GOOD, [GOOD[0], event(2, "c")])
    assert any("where another watch delivered" in problem for problem in found)


def test_wrong_final_state_is_a_problem() -> None:
    assert "the watch of w0 ended with k as b, but it is absent" in problems(GOOD, present="")
