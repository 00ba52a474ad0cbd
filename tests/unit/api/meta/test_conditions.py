# SPDX-License-Identifier: Apache-2.0
"""Conditions keep their transition time while their status stays."""

import msgspec

from kubeloop.api.meta.conditions import (
    find_condition,
    has_status,
    is_false,
    is_true,
    remove_condition,
    set_condition,
)


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


READY = Condition("Ready", "True", "Up", "fine", "t1")
BUSY = Condition("Busy", "False", last_transition_time="t1")


def test_new_condition_is_appended_with_the_time() -> None:
    assert set_condition((READY,), Condition("Busy", "True"), "t2") == (
        READY,
        Condition("Busy", "True", last_transition_time="t2"),
    )


def test_new_condition_keeps_its_time() -> None:
    assert set_condition((), READY, "t9") == (READY,)


def test_a_changed_status_moves_the_transition_time() -> None:
    changed = set_condition((READY, BUSY), Condition("Ready", "False", "Down"), "t2")
    assert changed == (Condition("Ready", "False", "Down", last_transition_time="t2"), BUSY)


def test_a_changed_reason_alone_keeps_the_transition_time() -> None:
    changed = set_condition((READY,), Condition("Ready", "True", "Still", last_transition_time="t5"), "t2")
    assert changed == (Condition("Ready", "True", "Still", last_transition_time="t1"),)


def test_no_op_returns_the_same_conditions() -> None:
    conditions = (READY, BUSY)
    assert set_condition(conditions, Condition("Ready", "True", "Up", "fine"), "t2") is conditions
    assert remove_condition(conditions, "Gone") is conditions


def test_conditions_are_found_and_removed_by_type() -> None:
    assert find_condition((READY, BUSY), "Busy") is BUSY
    assert find_condition((READY,), "Busy") is None
    assert remove_condition((READY, BUSY), "Ready") == (BUSY,)


def test_a_missing_condition_is_neither_true_nor_false() -> None:
    assert is_true((READY,), "Ready")
    assert is_false((BUSY,), "Busy")
    assert not is_true((), "Ready")
    assert not is_false((), "Ready")
    assert not has_status((READY,), "Ready", "Unknown")
