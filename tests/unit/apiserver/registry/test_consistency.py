# SPDX-License-Identifier: Apache-2.0
"""Tests of rejections that are returned or retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.registry.consistency import StoreState, retry_stale_rejection
from kubeloop.store import DependentConflict


class Store:
    """Fake store with the methods used here."""

    def __init__(self, shared: bool) -> None:
        self.is_shared = shared
        self.revision = 1
        self.rollbacks = 0
        self.waits: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def wait_settled(self) -> None:
        self.waits.append("settled")
        self.meanwhile()

    async def wait_current(self) -> None:
        self.waits.append("current")


def ask(store: Store, *outcomes: Exception | str) -> str:
    """Return the response after attempts with these results."""
    left = list(outcomes)

    async def answer() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def attempt() -> str:
        before = StoreState(store.revision, store.rollbacks)
        try:
            return await answer()
        except (errors.ApiError, DependentConflict) as rejection:
            return await retry_stale_rejection(store, before, rejection, answer)  # type: ignore[arg-type]

    try:
        return asyncio.run(attempt())
    finally:
        assert not left


REFUSED = errors.conflict("", "configmaps", "a")


@pytest.mark.parametrize("shared", [True, False])
def test_rejection_waits_for_pending_writes_and_is_returned_if_they_succeed(shared: bool) -> None:
    store = Store(shared)
    with pytest.raises(errors.Conflict):
        ask(store, REFUSED)
    assert store.waits == ["settled", "current"]


@pytest.mark.parametrize("shared", [True, False])
def test_rejection_based_on_a_failed_write_is_retried(shared: bool) -> None:
    store = Store(shared)

    def lose() -> None:
        store.rollbacks += 1

    store.meanwhile = lose
    assert ask(store, REFUSED, REFUSED, "done") == "done"


def test_stale_server_retries_once() -> None:
    store = Store(shared=True)

    def hear() -> None:
        store.revision += 1

    store.meanwhile = hear
    with pytest.raises(errors.Conflict):
        ask(store, REFUSED, REFUSED)


def test_single_server_is_never_stale() -> None:
    store = Store(shared=False)

    def commit() -> None:
        store.revision += 1

    store.meanwhile = commit
    with pytest.raises(errors.Conflict):
        ask(store, REFUSED)


def test_too_many_requests_is_returned_immediately() -> None:
    store = Store(shared=True)
    with pytest.raises(errors.TooManyRequests):
        ask(store, errors.too_many_requests("slower"))
    assert store.waits == []


def test_overtaken_write_is_retried() -> None:
    assert ask(Store(shared=True), DependentConflict("/a"), "done") == "done"


def test_last_of_ten_attempts_is_final() -> None:
    last = errors.conflict("", "configmaps", "b")
    with pytest.raises(errors.Conflict) as caught:
        ask(Store(shared=True), *[DependentConflict("/a")] * 9, last)
    assert caught.value is last
