# SPDX-License-Identifier: Apache-2.0
"""Histories that some order of effects explains, and histories that none does."""

from __future__ import annotations

import random
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.chaos.checks.history import Action, ClientOperation, Outcome
from kubeloop.chaos.checks.linearizability import first_violation, violations


def did(
    action: Action, outcome: Outcome, called: float, returned: float, mark: str = "", expected: str = ""
) -> ClientOperation:
    return ClientOperation(
        key="k", action=action, outcome=outcome, called=called, returned=returned, mark=mark, expected=expected
    )


def test_sequential_history_is_linearizable() -> None:
    assert not first_violation(
        [
            did("create", "ok", 0, 1, "a"),
            did("get", "ok", 2, 3, "a"),
            did("update", "ok", 4, 5, "b", expected="a"),
            did("update", "conflict", 6, 7, "c", expected="a"),
            did("create", "exists", 8, 9, "d"),
            did("delete", "ok", 10, 11),
            did("get", "missing", 12, 13),
            did("delete", "missing", 14, 15),
        ]
    )


def test_a_read_during_a_write_may_see_either() -> None:
    for seen in ("a", "b"):
        assert not first_violation(
            [did("create", "ok", 0, 1, "a"), did("update", "ok", 2, 9, "b"), did("get", "ok", 3, 4, seen)]
        )


def test_a_read_after_a_write_must_see_it() -> None:
    found = first_violation(
        [did("create", "ok", 0, 1, "a"), did("update", "ok", 2, 3, "b"), did("get", "ok", 4, 5, "a")]
    )
    assert found is not None
    assert found.operation.called == 4
    assert found.states == ("b",)
    assert str(found) == (
        "k: get by a client was answered ok with a, but the object can only have been: b; 0 other calls were open"
    )


def test_two_reads_never_go_back() -> None:
    assert first_violation(
        [
            did("create", "ok", 0, 1, "a"),
            did("update", "ok", 2, 9, "b"),
            did("get", "ok", 3, 4, "b"),
            did("get", "ok", 5, 6, "a"),
        ]
    )


def test_lost_acknowledged_write_is_detected() -> None:
    assert first_violation([did("create", "ok", 0, 1, "a"), did("get", "missing", 2, 3)])


def test_concurrent_conditional_writes_succeed_once() -> None:
    start = did("create", "ok", 0, 1, "a")
    one, other = did("update", "ok", 2, 9, "b", "a"), did("update", "ok", 2, 9, "c", "a")
    assert first_violation([start, one, other])
    assert not first_violation([start, one, did("update", "conflict", 2, 9, "c", "a")])


def test_write_without_response_may_happen_late_or_never() -> None:
    lost = did("update", "unknown", 2, 3, "b")
    start = did("create", "ok", 0, 1, "a")
    assert not first_violation([start, lost, did("get", "ok", 4, 5, "a"), did("get", "ok", 6, 7, "b")])
    assert not first_violation([start, lost, did("get", "ok", 4, 5, "a"), did("get", "ok", 6, 7, "a")])
    assert first_violation([start, lost, did("get", "ok", 4, 5, "b"), did("get", "ok", 6, 7, "a")])


def test_a_write_takes_effect_at_most_once() -> None:
    assert first_violation(
        [
            did("create", "ok", 0, 1, "a"),
            did("update", "unknown", 2, 3, "b"),
            did("get", "ok", 4, 5, "b"),
            did("update", "ok", 6, 7, "c"),
            did("get", "ok", 8, 9, "b"),
        ]
    )


def test_objects_are_checked_independently() -> None:
    bad = did("get", "ok", 0, 1, "x")
    good = ClientOperation(key="other", action="create", outcome="ok", called=0, returned=1, mark="a")
    assert [one.operation for one in violations([good, bad])] == [bad]


# -- against plain references ------------------------------------------------------------------------------------------

MARKS = ("a", "b", "c", "d", "e")
operations = st.builds(
    lambda index, action, outcome, called, length, mark, expected: did(
        action, outcome, called, called + length, mark, expected if action in ("update", "delete") else ""
    ),
    st.just(0),
    st.sampled_from(("create", "update", "delete", "get")),
    st.sampled_from(("ok", "ok", "ok", "exists", "conflict", "missing", "unknown")),
    st.integers(0, 6),
    st.integers(1, 4),
    st.sampled_from(MARKS),
    st.sampled_from(("", *MARKS)),
)


def explains(order: tuple[ClientOperation, ...], happened: tuple[bool, ...]) -> bool:
    """The obvious way: let them happen in this order."""
    state = ""
    for index, one in enumerate(order):
        if any(later.returned < one.called and later.outcome != "unknown" for later in order[index + 1 :]):
            return False
        if one.outcome == "unknown" and not happened[index]:
            continue
        fits = one.expected in ("", state)
        succeeds = {
            "create": state == "",
            "update": state != "" and fits,
            "delete": state != "" and fits,
            "get": state != "" and state == one.mark,
        }[one.action]
        if one.outcome in ("ok", "unknown"):
            if not succeeds:
                return False
            state = {"create": one.mark, "update": one.mark, "delete": "", "get": state}[one.action]
        else:
            right = {"exists": state != "", "missing": state == "", "conflict": state not in ("", one.expected)}
            if not right[one.outcome]:
                return False
    return True


@settings(max_examples=150, deadline=None)
@given(st.lists(operations, max_size=4))
def test_checker_agrees_with_brute_force(history: list[ClientOperation]) -> None:
    expected = any(
        explains(order, happened)
        for order in permutations(history)
        for happened in product((True, False), repeat=len(history))
    )
    assert (first_violation(history) is None) == expected


@pytest.mark.parametrize("seed", range(20))
def test_register_histories_are_linearizable(seed: int) -> None:
    chance = random.Random(seed)
    state, history = "", []
    for number in range(120):
        moment = number * 2.0
        action: Action = chance.choice(("create", "update", "update", "delete", "get", "get"))
        expected = chance.choice(("", state, "other")) if action in ("update", "delete") else ""
        outcome, mark = "ok", f"v{number}"
        if action == "create":
            outcome = "exists" if state else "ok"
        elif not state:
            outcome = "missing"
        elif action == "get":
            mark = state
        elif expected not in ("", state):
            outcome = "conflict"
        if outcome == "ok" and action != "get":
            state = mark if action != "delete" else ""
        if action not in ("get", "create") and outcome == "ok" and chance.random() < 0.1:
            outcome = "unknown"
        history.append(
            did(action, outcome, moment - chance.random() * 12, moment + chance.random() * 12, mark, expected)
        )
    assert first_violation(history) is None


def test_many_unknown_calls_are_checked_quickly() -> None:
    """Yield a history for each subset of calls that may have happened."""
    unheard = [
        did(action, "unknown", moment, moment + 0.5, mark=f"{action}-{moment}" if action == "create" else "")
        for moment in range(200)
        for action in ("create", "delete")
    ]
    seen = [did("get", "ok", 300, 301, "create-77"), did("get", "missing", 302, 303), did("create", "exists", 304, 305)]
    assert first_violation([*unheard, *seen]) is None
    found = first_violation([*unheard, *seen, did("get", "ok", 306, 307, "create-77")])
    assert found is not None
    assert found.operation.called == 306
