"""When a refusal is told, and when the request is looked at again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.registry.consistency import with_consistency
from kubeloop.apiserver.request.query import Query
from kubeloop.store import DependentConflict


class Store:
    """As much of a store as is asked here."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.revision = 1
        self.lost = 0
        self.waits: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def settled(self) -> None:
        self.waits.append("settled")
        self.meanwhile()

    async def current(self) -> None:
        self.waits.append("current")


def ask(store: Store, *outcomes: Exception | str, verb: str = "update") -> str:
    """What a client is told when one attempt after the other has these outcomes."""
    left = list(outcomes)

    async def answer() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    try:
        return asyncio.run(with_consistency(store, verb, Query(""), answer))  # type: ignore[arg-type]
    finally:
        assert not left


REFUSED = errors.conflict("", "configmaps", "a")


@pytest.mark.parametrize("shared", [True, False])
def test_a_refusal_waits_for_what_it_can_have_seen_and_is_told_if_that_has_happened(shared: bool) -> None:
    store = Store(shared)
    with pytest.raises(errors.Conflict):
        ask(store, REFUSED)
    assert store.waits == ["settled", "current"]


@pytest.mark.parametrize("shared", [True, False])
def test_a_refusal_by_a_write_that_came_to_nothing_is_none(shared: bool) -> None:
    store = Store(shared)

    def lose() -> None:
        store.lost += 1

    store.meanwhile = lose
    assert ask(store, REFUSED, REFUSED, "done") == "done"


def test_a_server_that_did_not_know_everything_looks_again_once() -> None:
    store = Store(shared=True)

    def hear() -> None:
        store.revision += 1

    store.meanwhile = hear
    with pytest.raises(errors.Conflict):
        ask(store, REFUSED, REFUSED)


def test_the_only_server_of_a_store_knows_everything() -> None:
    store = Store(shared=False)

    def commit() -> None:
        store.revision += 1

    store.meanwhile = commit
    with pytest.raises(errors.Conflict):
        ask(store, REFUSED)


def test_who_has_to_wait_is_told_at_once() -> None:
    store = Store(shared=True)
    with pytest.raises(errors.TooManyRequests):
        ask(store, errors.too_many_requests("slower"))
    assert store.waits == []


def test_a_write_whose_task_was_overtaken_is_made_again() -> None:
    assert ask(Store(shared=True), DependentConflict("/a"), "done") == "done"


def test_a_read_of_the_only_server_waits_for_nothing() -> None:
    store = Store(shared=False)
    assert ask(store, "found", verb="get") == "found"
    assert store.waits == []
