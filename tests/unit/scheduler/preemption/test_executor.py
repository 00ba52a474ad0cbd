# SPDX-License-Identifier: Apache-2.0
"""Tests of preemption: victims are deleted in parallel, the last one after the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from kubeloop.api.codec import from_plain
from kubeloop.api.errors import not_found
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.clock import SystemClock
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo, SignatureCache
from kubeloop.scheduler.preemption.executor import PreemptionExecutor


class ExecutorHarness:
    """Plugin handle with a server that responds on request."""

    def __init__(self) -> None:
        self.templates = SignatureCache()
        self.important = self.info("important")
        self.known: dict[str, Pod] = {}
        self.deleting: list[str] = []
        self.answers: dict[str, asyncio.Future[None]] = {}
        self.activated: list[str] = []
        self.notes: list[str] = []
        self.results: list[str] = []
        self.not_bound: set[str] = set()
        self.tasks: list[asyncio.Task[None]] = []
        handle: Any = SimpleNamespace(
            clock=SystemClock(), client=self, pods=SimpleNamespace(get=lambda _, name: self.known.get(name)),
            waiting_pods=SimpleNamespace(preempt=lambda uid, _: uid in self.not_bound),
            reporter=SimpleNamespace(record_event=lambda *about, **_: self.notes.append(about[3])),
            spawn=lambda work: self.tasks.append(asyncio.ensure_future(work)),
            activate=lambda keys: self.activated.extend(str(one) for one in keys),
            metrics=SimpleNamespace(observe_eviction=lambda result, _: self.results.append(result)),
        )  # fmt: skip
        self.evictions = PreemptionExecutor(handle, "DefaultPreemption")

    def info(self, name: str) -> PodInfo:
        meta = {"name": name, "namespace": "default", "uid": name}
        return self.templates.pod_info(from_plain({"metadata": meta, "spec": {"containers": []}}, Pod))

    def begin(self, *victims: str) -> None:
        infos = [self.info(one) for one in victims]
        self.known = {one.key.name: one.pod for one in infos}
        self.evictions.start_preemption(self.important, infos, "n1")

    async def patch(self, *_: Any, **__: Any) -> None:
        await asyncio.sleep(0)

    async def delete(self, _: str, name: str, *__: Any, **___: Any) -> None:
        self.deleting.append(name)
        self.answers[name] = asyncio.get_running_loop().create_future()
        await self.answers[name]

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def goes(self, name: str) -> None:
        """The cache observes it before the server has responded."""
        meta = structs.replace(self.known[name].metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self.known[name] = structs.replace(self.known[name], metadata=meta)

    @property
    def waits(self) -> bool:
        return self.evictions.is_pod_running_preemption("important")


def play(story: Callable[[ExecutorHarness], Awaitable[None]]) -> None:
    async def told() -> None:
        await story(ExecutorHarness())

    asyncio.run(told())


def test_last_victim_is_deleted_after_the_others() -> None:
    async def story(it: ExecutorHarness) -> None:
        it.begin("a", "b", "c")
        await it.settle()
        assert it.deleting == ["a", "b"]
        for name in ("a", "b"):
            it.answers[name].set_result(None)
        await it.settle()
        assert (it.deleting, it.waits) == (["a", "b", "c"], True)
        it.goes("c")
        assert it.waits is False
        it.answers["c"].set_result(None)
        await it.settle()
        assert (it.waits, it.activated, it.results) == (False, [], ["success"])
        assert it.notes == ["Preempted by pod important on node n1"] * 3

    play(story)


def test_first_deleted_victim_does_not_end_preemption() -> None:
    async def story(it: ExecutorHarness) -> None:
        it.begin("a", "b")
        await it.settle()
        it.goes("a")
        assert it.waits

    play(story)


def test_failed_deletion_keeps_the_last_victim_and_the_pod_is_retried() -> None:
    async def story(it: ExecutorHarness) -> None:
        it.begin("a", "b", "last")
        await it.settle()
        it.answers["a"].set_exception(ConnectionError("no answer"))
        await it.settle()
        assert it.deleting == ["a", "b"]
        assert (it.waits, it.activated, it.results) == (False, ["default/important"], ["error"])

    play(story)


def test_already_deleted_last_victim_requeues_the_pod() -> None:
    async def story(it: ExecutorHarness) -> None:
        it.begin("a")
        await it.settle()
        it.answers["a"].set_exception(not_found("", "pods", "a"))
        await it.settle()
        assert (it.waits, it.activated, it.results, it.notes) == (False, ["default/important"], ["success"], [])

    play(story)


def test_waiting_victim_is_rejected_with_a_message() -> None:
    async def story(it: ExecutorHarness) -> None:
        it.not_bound.add("a")
        it.begin("a")
        await it.settle()
        assert (it.deleting, it.results) == ([], ["success"])
        assert it.notes == ["Preempted by pod important on node n1 (in kube-scheduler memory)."]

    play(story)


@pytest.mark.parametrize("uid", ["important", "another"])
def test_terminating_victims_are_not_awaited(uid: str) -> None:
    async def story(it: ExecutorHarness) -> None:
        going = it.info("a")
        meta = structs.replace(going.pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        going.pod = structs.replace(going.pod, metadata=meta)
        it.evictions.start_preemption(it.important, [going], "n1")
        assert not it.evictions.is_pod_running_preemption(uid)
        assert it.tasks == []

    play(story)


def test_recreated_pod_is_not_the_last_victim() -> None:
    async def story(it: ExecutorHarness) -> None:
        it.begin("a")
        await it.settle()
        assert it.waits
        key = ObjectKey("default", "a")
        meta = structs.replace(it.known[key.name].metadata, uid="anew")
        it.known[key.name] = structs.replace(it.known[key.name], metadata=meta)
        assert not it.waits

    play(story)
