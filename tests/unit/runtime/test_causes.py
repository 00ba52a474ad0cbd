"""Why a key was woken: merged, bounded, attached to writes, and never outside of a reconcile."""

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


def test_a_later_change_of_an_object_stands_for_the_earlier() -> None:
    known = (origin("a", 1), origin("b", 2))
    assert merge_origins(known, (origin("a", 3),)) == (origin("b", 2), origin("a", 3))


def test_a_resync_tells_nothing_new_of_an_object_that_has_changed() -> None:
    known = (origin("a", 1),)
    assert merge_origins(known, (origin("a", 1, "resync"), origin("b", 1, "resync"))) == (
        *known,
        origin("b", 1, "resync"),
    )


def test_the_latest_origins_are_kept_when_there_are_too_many() -> None:
    known: tuple[Origin, ...] = ()
    for number in range(100):
        known = merge_origins(known, (origin(f"pod-{number}"),))
    assert known == tuple(origin(f"pod-{number}") for number in range(100 - MAX_ORIGINS, 100))


changes = st.lists(st.builds(origin, st.sampled_from("abcd"), st.integers(1, 9)), max_size=12).map(tuple)


@given(changes, changes)
def test_every_newer_change_is_in_the_merger_once_an_object(known: causes.Origins, newer: causes.Origins) -> None:
    merged = merge_origins(merge_origins((), known), newer)
    names = [one.name for one in merged]
    assert len(names) == len(set(names))
    assert set(names) == {one.name for one in (*known, *newer)}
    latest = {one.name: one for one in (*known, *newer)}
    assert set(merged) == set(latest.values())


def test_the_text_is_compact_json_of_who_and_why() -> None:
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


def test_outside_of_a_reconcile_there_is_no_cause() -> None:
    assert current_cause() is None
    assert cause_text() == ""


def test_tasks_started_under_a_cause_have_it_and_its_end_restores_what_was() -> None:
    async def main() -> None:
        cause = Cause("c", "k")
        token = causes.set_current(cause)
        seen = await asyncio.create_task(_read())
        causes.reset_current(token)
        assert (seen, current_cause()) == (cause, None)

    async def _read() -> Cause | None:
        return current_cause()

    run_virtual(main())


def test_a_reconcile_that_writes_without_end_is_remembered_within_bounds() -> None:
    cause = Cause("c", "k")
    for number in range(MAX_WRITES + 10):
        cause.wrote(RecordedWrite("create", "pods", "d", str(number), "1"))
    assert len(cause.writes) == MAX_WRITES
