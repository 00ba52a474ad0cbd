"""Pods that end for another: all at once but the last, and the other one waits until that one goes."""

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


class Scene:
    """A plugin's surroundings, with a server that answers when it is told to."""

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
            permits=SimpleNamespace(preempt=lambda uid, _: uid in self.not_bound),
            reporter=SimpleNamespace(event=lambda *about, **_: self.notes.append(about[3])),
            spawn=lambda work: self.tasks.append(asyncio.ensure_future(work)),
            activate=lambda keys: self.activated.extend(str(one) for one in keys),
            evicted=lambda result, _: self.results.append(result),
        )  # fmt: skip
        self.evictions = PreemptionExecutor(handle, "DefaultPreemption")

    def info(self, name: str) -> PodInfo:
        meta = {"name": name, "namespace": "default", "uid": name}
        return self.templates.info(from_plain({"metadata": meta, "spec": {"containers": []}}, Pod))

    def begin(self, *victims: str) -> None:
        infos = [self.info(one) for one in victims]
        self.known = {one.key.name: one.pod for one in infos}
        self.evictions.begin(self.important, infos, "n1")

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
        """The cache hears of it before the server has answered."""
        meta = structs.replace(self.known[name].metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self.known[name] = structs.replace(self.known[name], metadata=meta)

    @property
    def waits(self) -> bool:
        return self.evictions.is_under_way("important")


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def told() -> None:
        await story(Scene())

    asyncio.run(told())


def test_all_but_the_last_end_at_the_same_time_and_the_last_after_them() -> None:
    async def story(it: Scene) -> None:
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


def test_the_first_of_several_that_goes_does_not_end_the_wait() -> None:
    async def story(it: Scene) -> None:
        it.begin("a", "b")
        await it.settle()
        it.goes("a")
        assert it.waits

    play(story)


def test_if_one_can_not_be_ended_the_last_is_spared_and_the_pod_tried_again() -> None:
    async def story(it: Scene) -> None:
        it.begin("a", "b", "last")
        await it.settle()
        it.answers["a"].set_exception(ConnectionError("no answer"))
        await it.settle()
        assert it.deleting == ["a", "b"]
        assert (it.waits, it.activated, it.results) == (False, ["default/important"], ["error"])

    play(story)


def test_a_last_one_that_is_gone_already_wakes_nobody_so_the_pod_is_tried_at_once() -> None:
    async def story(it: Scene) -> None:
        it.begin("a")
        await it.settle()
        it.answers["a"].set_exception(not_found("", "pods", "a"))
        await it.settle()
        assert (it.waits, it.activated, it.results, it.notes) == (False, ["default/important"], ["success"], [])

    play(story)


def test_one_that_is_not_bound_yet_is_sent_back_and_told_so() -> None:
    async def story(it: Scene) -> None:
        it.not_bound.add("a")
        it.begin("a")
        await it.settle()
        assert (it.deleting, it.results) == ([], ["success"])
        assert it.notes == ["Preempted by pod important on node n1 (in kube-scheduler memory)."]

    play(story)


@pytest.mark.parametrize("uid", ["important", "another"])
def test_nobody_waits_for_pods_that_are_going_already(uid: str) -> None:
    async def story(it: Scene) -> None:
        going = it.info("a")
        meta = structs.replace(going.pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        going.pod = structs.replace(going.pod, metadata=meta)
        it.evictions.begin(it.important, [going], "n1")
        assert not it.evictions.is_under_way(uid)
        assert it.tasks == []

    play(story)


def test_a_pod_made_anew_under_the_name_of_the_last_one_is_another() -> None:
    async def story(it: Scene) -> None:
        it.begin("a")
        await it.settle()
        assert it.waits
        key = ObjectKey("default", "a")
        meta = structs.replace(it.known[key.name].metadata, uid="anew")
        it.known[key.name] = structs.replace(it.known[key.name], metadata=meta)
        assert not it.waits

    play(story)
