# SPDX-License-Identifier: Apache-2.0
"""Tests of causes: merged, bounded, attached to writes, and limited to a reconcile."""

from __future__ import annotations

import asyncio
import json

from hypothesis import example, given
from hypothesis import strategies as st

from kubeloop.runtime.causes import cause as causes
from kubeloop.runtime.causes.cause import (
    MAX_ORIGINS,
    MAX_TEXT,
    MAX_WRITES,
    Cause,
    Origin,
    RecordedWrite,
    cause_text,
    current_cause,
    merge_origins,
)
from kubeloop.sim.loop import run_virtual


def origin(name: str, revision: int = 1, event: causes.Event = "MODIFIED") -> Origin:
    return Origin("Pod", "default", name, str(revision), event)


def test_later_change_replaces_the_earlier_one() -> None:
    known = (origin("a", 1), origin("b", 2))
    assert merge_origins(known, (origin("a", 3),)) == (origin("b", 2), origin("a", 3))


def test_resync_adds_nothing_to_a_changed_object() -> None:
    known = (origin("a", 1),)
    assert merge_origins(known, (origin("a", 1, "resync"), origin("b", 1, "resync"))) == (
        *known,
        origin("b", 1, "resync"),
    )


def test_latest_origins_are_kept_above_the_limit() -> None:
    known: tuple[Origin, ...] = ()
    for number in range(100):
        known = merge_origins(known, (origin(f"pod-{number}"),))
    assert known == tuple(origin(f"pod-{number}") for number in range(100 - MAX_ORIGINS, 100))


changes = st.lists(st.builds(origin, st.sampled_from("abcd"), st.integers(1, 9)), max_size=12).map(tuple)


@given(changes, changes)
def test_merge_keeps_the_newest_change_per_object(known: causes.Origins, newer: causes.Origins) -> None:
    merged = merge_origins(merge_origins((), known), newer)
    names = [one.name for one in merged]
    assert len(names) == len(set(names))
    assert set(names) == {one.name for one in (*known, *newer)}
    latest = {one.name: one for one in (*known, *newer)}
    assert set(merged) == set(latest.values())


def test_text_is_compact_json() -> None:
    text = Cause("replicaset-controller", "default/web", (origin("a", 7),)).text
    assert " " not in text
    assert json.loads(text) == {
        "controller": "replicaset-controller",
        "key": "default/web",
        "origins": [["Pod", "default", "a", "7", "MODIFIED"]],
    }


@given(st.integers(0, MAX_ORIGINS), st.text(min_size=1, max_size=300), st.text(max_size=6000))
@example(count=0, name="a", key="\x7f")
@example(count=1, name="\x7f", key="é")
def test_the_text_always_fits_a_header(count: int, name: str, key: str) -> None:
    cause = Cause("c", key, tuple(Origin("Kind", name, f"{name}{n}", "1", "ADDED") for n in range(count)))
    assert len(cause.text) <= MAX_TEXT
    assert cause.text.isascii()
    assert cause.text.isprintable()
    told = json.loads(cause.text)
    assert told["controller"] == "c"
    if "origins" in told:
        assert len(told["origins"]) + told.get("leftOut", 0) == count


def test_no_cause_exists_outside_of_a_reconcile() -> None:
    assert current_cause() is None
    assert cause_text() == ""


def test_tasks_inherit_the_cause_and_it_is_restored() -> None:
    async def main() -> None:
        cause = Cause("c", "k")
        token = causes.set_current(cause)
        seen = await asyncio.create_task(_read())
        causes.reset_current(token)
        assert (seen, current_cause()) == (cause, None)

    async def _read() -> Cause | None:
        return current_cause()

    run_virtual(main())


def test_recorded_writes_of_a_reconcile_are_bounded() -> None:
    cause = Cause("c", "k")
    for number in range(MAX_WRITES + 10):
        cause.record_write(RecordedWrite("create", "pods", "d", str(number), "1"))
    assert len(cause.writes) == MAX_WRITES
