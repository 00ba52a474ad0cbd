"""Why a key was woken: merged, bounded, attached to writes, and never outside of a reconcile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.calls import Call, WatchEvent
from kubeloop.api.errors import Conflict, conflict
from kubeloop.api.generated import core_v1, meta_v1
from kubeloop.api.kinds import RESOURCES
from kubeloop.runtime import causes
from kubeloop.runtime.causes import (
    MAX_ORIGINS,
    MAX_TEXT,
    MAX_WRITES,
    Cause,
    CausedTransport,
    Origin,
    Write,
    cause_text,
    current_cause,
    merge,
)
from kubeloop.sim.loop import run_virtual

PODS = next(one for one in RESOURCES if one.plural == "pods")


def origin(name: str, revision: int = 1, event: causes.Event = "MODIFIED") -> Origin:
    return Origin("Pod", "default", name, str(revision), event)


def test_a_later_change_of_an_object_stands_for_the_earlier() -> None:
    known = (origin("a", 1), origin("b", 2))
    assert merge(known, (origin("a", 3),)) == (origin("b", 2), origin("a", 3))


def test_a_resync_tells_nothing_new_of_an_object_that_has_changed() -> None:
    known = (origin("a", 1),)
    assert merge(known, (origin("a", 1, "resync"), origin("b", 1, "resync"))) == (*known, origin("b", 1, "resync"))


def test_the_latest_origins_are_kept_when_there_are_too_many() -> None:
    known: tuple[Origin, ...] = ()
    for number in range(100):
        known = merge(known, (origin(f"pod-{number}"),))
    assert known == tuple(origin(f"pod-{number}") for number in range(100 - MAX_ORIGINS, 100))


changes = st.lists(st.builds(origin, st.sampled_from("abcd"), st.integers(1, 9)), max_size=12).map(tuple)


@given(changes, changes)
def test_every_newer_change_is_in_the_merger_once_an_object(known: causes.Origins, newer: causes.Origins) -> None:
    merged = merge(merge((), known), newer)
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
        token = causes.enter(cause)
        seen = await asyncio.create_task(_read())
        causes.leave(token)
        assert (seen, current_cause()) == (cause, None)

    async def _read() -> Cause | None:
        return current_cause()

    run_virtual(main())


class Recording:
    """A transport that remembers calls, and fails those for the name `taken`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.closed = False

    async def call(self, call: Call) -> Any:
        self.calls.append(call)
        if call.name == "taken":
            raise conflict("", "pods", "taken")
        return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=call.name or "new-x7", resource_version="42"))

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        yield [WatchEvent("BOOKMARK", None, call.options["resourceVersion"])]

    async def close(self) -> None:
        self.closed = True


def test_writes_carry_the_cause_and_are_remembered_with_their_outcome() -> None:
    async def main() -> None:
        inner = Recording()
        transport = CausedTransport(inner)
        cause = Cause("c", "k", (origin("a"),))
        token = causes.enter(cause)
        await transport.call(Call(verb="get", resource=PODS, namespace="d", name="a"))
        await transport.call(Call(verb="create", resource=PODS, namespace="d"))
        with pytest.raises(Conflict):
            await transport.call(Call(verb="patch", resource=PODS, namespace="d", name="taken", subresource="status"))
        await transport.call(Call(verb="delete", resource=PODS, namespace="d", name="a", cause="told already"))
        causes.leave(token)
        await transport.call(Call(verb="delete", resource=PODS, namespace="d", name="b"))

        assert [call.cause for call in inner.calls] == ["", cause.text, cause.text, "told already", ""]
        assert cause.writes == (
            Write("create", "pods", "d", "new-x7", "42"),
            Write("patch", "pods/status", "d", "taken", "Conflict"),
            Write("delete", "pods", "d", "a", "42"),
        )

    run_virtual(main())


def test_a_caused_transport_watches_and_closes_as_the_one_within() -> None:
    async def main() -> None:
        inner = Recording()
        transport = CausedTransport(inner)
        call = Call(verb="watch", resource=PODS, options={"resourceVersion": "5"})
        assert [batch[0].resource_version async for batch in transport.watch(call)] == ["5"]
        await transport.close()
        assert inner.closed

    run_virtual(main())


def test_a_reconcile_that_writes_without_end_is_remembered_within_bounds() -> None:
    cause = Cause("c", "k")
    for number in range(MAX_WRITES + 10):
        cause.wrote(Write("create", "pods", "d", str(number), "1"))
    assert len(cause.writes) == MAX_WRITES
