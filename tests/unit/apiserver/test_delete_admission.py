# SPDX-License-Identifier: Apache-2.0
"""Tests of the order of a deletion's steps: options, preconditions, admission, write; and of collections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.admission import AdmissionChain, AdmissionPlugin, Attributes
from kubeloop.store import StoreEvent
from tests.unit.apiserver.conftest import POD_SPEC, Api, ManualClock

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
PODS = "/api/v1/namespaces/shop/pods"
_UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"


class Guard(AdmissionPlugin):
    """Refuses to delete objects with the label `keep`; `meanwhile` runs while it waits, once."""

    name = "Guard"

    def __init__(self) -> None:
        self.seen: list[Attributes] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def handles(self, operation: str, resource: Any, subresource: str) -> bool:
        return operation == "DELETE"

    def validate(self, attempt: Attributes) -> Awaitable[None] | None:
        self.seen.append(attempt)
        if self.meanwhile is not None:
            work, self.meanwhile = self.meanwhile, None
            return self._check_after(work(), attempt)
        self._check(attempt)
        return None

    async def _check_after(self, work: Awaitable[None], attempt: Attributes) -> None:
        await work
        self._check(attempt)

    def _check(self, attempt: Attributes) -> None:
        assert attempt.old_obj is not None
        if "keep" in attempt.old_obj.metadata.labels:
            raise errors.forbidden("", "configmaps", attempt.old_obj.metadata.name, "it is kept")


class GuardedApi(Api):
    def admission(self) -> AdmissionChain:
        self.guard = Guard()
        return AdmissionChain([self.guard])


@pytest.fixture
def guarded() -> Iterator[GuardedApi]:
    with asyncio.Runner() as runner:
        yield GuardedApi(runner, ManualClock())


def make(api: Api, name: str, **meta: Any) -> Any:
    return api.made(CONFIG_MAPS, {"metadata": {"name": name, **meta}})


def names(api: Api) -> list[str]:
    return [one["metadata"]["name"] for one in api.get(CONFIG_MAPS).body["items"]]


def test_a_change_during_admission_is_admitted_again(guarded: GuardedApi) -> None:
    make(guarded, "m")

    async def label() -> None:
        patch = {"metadata": {"labels": {"keep": ""}}}
        headers = {"content_type": "application/merge-patch+json"}
        answer = await guarded._answer("PATCH", f"{CONFIG_MAPS}/m", patch, headers)
        assert answer.status == 200

    guarded.guard.meanwhile = label
    answer = guarded.ask("DELETE", f"{CONFIG_MAPS}/m")
    assert (answer.status, len(guarded.guard.seen)) == (403, 2)
    assert names(guarded) == ["m"]


def test_preconditions_are_checked_before_admission(guarded: GuardedApi) -> None:
    make(guarded, "m", labels={"keep": ""})
    assert guarded.ask("DELETE", f"{CONFIG_MAPS}/m", {"preconditions": {"uid": "other"}}).status == 409
    assert guarded.guard.seen == []


def test_a_pending_graceful_deletion_is_not_admitted_again(guarded: GuardedApi) -> None:
    guarded.made(PODS, {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": "n"}})
    assert [guarded.ask("DELETE", f"{PODS}/p").status for _ in range(2)] == [200, 200]
    assert len(guarded.guard.seen) == 1


def test_deletecollection_stops_at_the_first_refusal(guarded: GuardedApi) -> None:
    for name in ("a", "b", "c"):
        make(guarded, name, labels={"keep": ""} if name == "b" else {})
    answer = guarded.ask("DELETE", CONFIG_MAPS)
    assert (answer.status, answer.body["details"]["name"]) == (403, "b")
    assert names(guarded) == ["b", "c"]
    assert [one.name for one in guarded.guard.seen] == ["", ""]


def test_deletecollection_names_the_object_that_changes_all_the_time(
    guarded: GuardedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(guarded, "a")
    storage = guarded.registry.storage_named("", "v1", "configmaps")
    write = storage.store.write

    async def overtaken(key: str, value: bytes | None, expected: int | None = None) -> Any:
        if value is None:
            record = storage.store.peek(key)
            assert record is not None
            await write(key, record.value + b" ", record.mod_revision)
        return await write(key, value, expected)

    monkeypatch.setattr(storage.store, "write", overtaken)
    answer = guarded.ask("DELETE", CONFIG_MAPS)
    assert (answer.status, answer.body["details"]["name"]) == (409, "a")


def test_deletecollection_checks_list_options_before_the_body(guarded: GuardedApi) -> None:
    answer = guarded.ask("DELETE", f"{CONFIG_MAPS}?labelSelector=!!", b"{no json")
    assert answer.status == 400
    assert "unable to parse requirement" in answer.body["message"]


def test_deletecollection_refuses_unsafe_deletion(guarded: GuardedApi) -> None:
    make(guarded, "a")
    answer = guarded.ask("DELETE", CONFIG_MAPS, {_UNSAFE: True})
    assert answer.status == 422
    assert answer.body["message"] == (
        f'DeleteOptions.meta.k8s.io "" is invalid: {_UNSAFE}: Invalid value: true: '
        "is not allowed with DELETECOLLECTION, try again after removing the option"
    )
    assert names(guarded) == ["a"]


@pytest.mark.parametrize(
    ("elapsed", "asked", "period", "end"),
    [
        (0, 5, 5, "2026-05-10T12:00:05Z"),
        (0, -1, 1, "2026-05-10T12:00:01Z"),
        (10, 5, 1, "2026-05-10T12:00:10Z"),
        (10, 20, 20, "2026-05-10T12:00:20Z"),
    ],
)
def test_a_shortened_grace_period_does_not_end_in_the_past(
    guarded: GuardedApi, elapsed: float, asked: int, period: int, end: str
) -> None:
    guarded.made(PODS, {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": "n"}})
    guarded.ask("DELETE", f"{PODS}/p")
    guarded.clock.advance(elapsed)
    marked = guarded.ask("DELETE", f"{PODS}/p?gracePeriodSeconds={asked}").body["metadata"]
    assert (marked["deletionGracePeriodSeconds"], marked["deletionTimestamp"]) == (period, end)
    assert guarded.get(f"{PODS}/p").status == 200


@pytest.mark.parametrize("is_changed_before", [False, True])
def test_deletion_without_grace_succeeds_if_another_client_removes_the_object(
    guarded: GuardedApi, monkeypatch: pytest.MonkeyPatch, is_changed_before: bool
) -> None:
    guarded.made(PODS, {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": "n1"}})
    write = guarded.store.write

    async def remove_first(key: str, value: bytes | None, revision: int) -> StoreEvent:
        """Write for the request; another client, as the pod's kubelet, removes the pod before the request does."""
        if value is None:
            monkeypatch.setattr(guarded.store, "write", write)
            marked, rival = guarded.store.peek(key), revision
            assert marked is not None
            if is_changed_before:
                rival = (await write(key, marked.value, revision)).revision
            await write(key, None, rival)
        return await write(key, value, revision)

    monkeypatch.setattr(guarded.store, "write", remove_first)
    answer = guarded.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert (answer.status, answer.body["metadata"]["name"]) == (200, "p")
    assert guarded.get(f"{PODS}/p").status == 404


def test_deletion_without_grace_follows_a_change_of_the_object(
    guarded: GuardedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.made(PODS, {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": "n1"}})
    write = guarded.store.write

    async def change_first(key: str, value: bytes | None, revision: int) -> StoreEvent:
        if value is None:
            monkeypatch.setattr(guarded.store, "write", write)
            marked = guarded.store.peek(key)
            assert marked is not None
            await write(key, marked.value, revision)
        return await write(key, value, revision)

    monkeypatch.setattr(guarded.store, "write", change_first)
    assert guarded.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}).status == 200
    assert guarded.get(f"{PODS}/p").status == 404
    assert len(guarded.guard.seen) == 2  # the changed state is admitted, too
