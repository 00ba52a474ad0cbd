# SPDX-License-Identifier: Apache-2.0
"""Tests of the worker: keys whose reconcile succeeds, fails, hangs, is cancelled or is terminal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest

from kubeloop.api import errors
from kubeloop.api.generated import apps_v1, core_v1, meta_v1
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.clock import SystemClock
from kubeloop.runtime.causes.cause import Origin, RecordedWrite, current_cause
from kubeloop.runtime.controller import STALE_TRIES, Controller, Reconcile, Result, Telemetry, TerminalError
from kubeloop.runtime.informer.event_handlers import ResourceEventHandler
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual

PODS = next(one for one in RESOURCES if one.plural == "pods")
REPLICASETS = next(one for one in RESOURCES if one.plural == "replicasets")


class ControllerHarness:
    """A controller under a virtual clock, with its reconciles written down."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.telemetry = Telemetry()
        self.seen: list[tuple[float, str]] = []
        self.task: asyncio.Task[None] | None = None

    def run(self, reconcile: Reconcile[str], **options: Any) -> Controller[str]:
        async def noted(key: str) -> Result | None:
            self.seen.append((round(self.loop.time(), 3), key))
            return await reconcile(key)

        controller = Controller("loop", noted, self.clock, telemetry=self.telemetry, **options)
        self.task = asyncio.create_task(controller.run())
        return controller

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def metric(self, start: str) -> float:
        found = [line for line in self.telemetry.registry.render().splitlines() if line.startswith(start)]
        return float(found[0].split()[-1])


def in_virtual_time(test: Callable[[ControllerHarness], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        loop = VirtualLoop()

        async def main() -> None:
            harness = ControllerHarness(loop)
            try:
                await test(harness)
            finally:
                await harness.stop()

        run_virtual(main(), loop=loop)

    run.__name__ = test.__name__
    return run


def failing(error: BaseException, times: int = 1_000_000) -> Callable[[str], Awaitable[None]]:
    left = [times]

    async def reconcile(_key: str) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise error

    return reconcile


async def fine(_key: str) -> None:
    pass


@in_virtual_time
async def test_each_key_is_reconciled(harness: ControllerHarness) -> None:
    controller = harness.run(fine)
    for key in ("a", "b", "a"):
        controller.queue.add(key)
    await harness.loop.settle()
    assert harness.seen == [(0, "a"), (0, "b")]
    assert harness.metric('controller_runtime_reconcile_total{controller="loop",result="success"}') == 2
    assert controller.status().reconciles == 2


@in_virtual_time
async def test_concurrent_keys_are_limited_to_workers_and_no_key_runs_twice(harness: ControllerHarness) -> None:
    busy: Counter[str] = Counter()
    most = 0

    async def slow(key: str) -> None:
        nonlocal most
        busy[key] += 1
        most = max(most, busy.total())
        assert busy[key] == 1
        await asyncio.sleep(1)
        busy[key] -= 1

    controller = harness.run(slow, workers=3)
    for _ in range(4):
        for key in "abcdefg":
            controller.queue.add(key)
        await harness.loop.advance(0.7)
    await harness.loop.advance(30)
    assert most == 3
    assert controller.status().errors == 0


@in_virtual_time
async def test_failed_key_is_retried_with_backoff(harness: ControllerHarness) -> None:
    controller = harness.run(failing(ValueError("no"), times=4))
    controller.queue.add("a")
    await harness.loop.advance(60)
    assert [moment for moment, _ in harness.seen] == [0, 0.005, 0.015, 0.035, 0.075]
    assert controller.queue.num_requeues("a") == 0
    status = controller.status()
    assert (status.errors, status.last_error, status.last_error_key) == (4, "ValueError: no", "a")
    assert status.healthy  # the controller itself is healthy
    assert harness.metric("controller_runtime_reconcile_errors_total") == 4


@in_virtual_time
async def test_failing_key_blocks_no_other(harness: ControllerHarness) -> None:
    async def reconcile(key: str) -> None:
        if key == "bad":
            raise RuntimeError

    controller = harness.run(reconcile, workers=1)
    for key in ("bad", "good"):
        controller.queue.add(key)
    await harness.loop.settle()
    assert harness.seen == [(0, "bad"), (0, "good")]


@in_virtual_time
async def test_terminal_error_waits_for_a_new_event(harness: ControllerHarness) -> None:
    controller = harness.run(failing(TerminalError("bad spec"), times=1))
    controller.queue.add("a")
    await harness.loop.advance(10_000)
    assert len(harness.seen) == 1
    assert harness.metric("controller_runtime_terminal_reconcile_errors_total") == 1
    controller.queue.add("a")
    await harness.loop.settle()
    assert len(harness.seen) == 2


@in_virtual_time
async def test_result_requeues_the_key_on_time(harness: ControllerHarness) -> None:
    async def reconcile(_key: str) -> Result | None:
        return Result(requeue_after=30) if len(harness.seen) < 3 else None

    controller = harness.run(reconcile)
    controller.queue.add("a")
    await harness.loop.advance(1000)
    assert harness.seen == [(0, "a"), (30, "a"), (60, "a")]
    assert controller.queue.num_requeues("a") == 0


@in_virtual_time
async def test_immediate_requeue_follows_other_keys(harness: ControllerHarness) -> None:
    async def reconcile(key: str) -> Result | None:
        return Result(requeue_after=0) if len(harness.seen) == 1 else None

    controller = harness.run(reconcile, workers=1)
    for key in ("a", "b"):
        controller.queue.add(key)
    await harness.loop.settle()
    assert [key for _, key in harness.seen] == ["a", "b", "a"]


@in_virtual_time
async def test_stale_read_is_not_an_error(harness: ControllerHarness) -> None:
    stale = ExceptionGroup("several", [errors.conflict("", "pods", "a"), errors.not_found("", "pods", "b")])
    controller = harness.run(failing(stale, times=2))
    controller.queue.add("a")
    await harness.loop.advance(10)
    assert len(harness.seen) == 3
    assert controller.status().errors == 0
    assert harness.metric('controller_runtime_reconcile_total{controller="loop",result="requeue"}') == 2


@in_virtual_time
async def test_permanently_stale_read_is_an_error(harness: ControllerHarness) -> None:
    controller = harness.run(failing(errors.not_found("", "namespaces", "gone")))
    controller.queue.add("a")
    await harness.loop.advance(1)
    assert controller.status().errors == len(harness.seen) - STALE_TRIES > 0


@in_virtual_time
async def test_real_error_among_stale_reads_is_an_error(harness: ControllerHarness) -> None:
    mixed = ExceptionGroup("several", [errors.conflict("", "pods", "a"), ValueError("no")])
    controller = harness.run(failing(mixed, times=1))
    controller.queue.add("a")
    await harness.loop.advance(10)
    assert controller.status().errors == 1


@in_virtual_time
async def test_reconcile_timeout_is_enforced_and_retried(harness: ControllerHarness) -> None:
    async def slow_at_first(_key: str) -> None:
        if len(harness.seen) == 1:
            await asyncio.sleep(3600)

    controller = harness.run(slow_at_first, timeout=10)
    controller.queue.add("a")
    await harness.loop.advance(20)
    assert [moment for moment, _ in harness.seen] == [0, 10.005]
    assert controller.status().last_error == "TimeoutError: timed out after 10 s"
    assert harness.metric("controller_runtime_reconcile_timeouts_total") == 1


@in_virtual_time
async def test_inner_timeout_is_an_ordinary_failure(harness: ControllerHarness) -> None:
    controller = harness.run(failing(TimeoutError("the server is slow"), times=1), timeout=10)
    controller.queue.add("a")
    await harness.loop.advance(1)
    assert controller.status().last_error == "TimeoutError: the server is slow"
    assert harness.metric("controller_runtime_reconcile_timeouts_total") == 0


@in_virtual_time
async def test_hung_reconcile_is_unhealthy_with_its_key(harness: ControllerHarness) -> None:
    async def hang(_key: str) -> None:
        await asyncio.Event().wait()

    controller = harness.run(hang)
    controller.queue.add("default/web")
    await harness.loop.advance(300)
    assert controller.health() == (True, "")
    await harness.loop.advance(12)
    assert controller.health() == (False, "stuck for 312 s on default/web")
    assert not controller.status().healthy


@in_virtual_time
async def test_inner_cancellation_is_a_failure_of_the_reconcile(harness: ControllerHarness) -> None:
    async def reconcile(_key: str) -> None:
        if len(harness.seen) == 1:
            other = asyncio.create_task(asyncio.sleep(3600))
            other.cancel()
            await other

    controller = harness.run(reconcile, workers=1)
    controller.queue.add("a")
    await harness.loop.advance(1)
    assert len(harness.seen) == 2
    assert controller.status().errors == 1


@in_virtual_time
async def test_a_cancelled_controller_keeps_its_keys_and_can_run_again(harness: ControllerHarness) -> None:
    async def reconcile(_key: str) -> None:
        if len(harness.seen) <= 2:
            await asyncio.Event().wait()

    controller = harness.run(reconcile, workers=2)
    for key in "abc":
        controller.queue.add(key, (Origin("Pod", "", key, "1", "ADDED"),))
    await harness.loop.settle()
    await harness.stop()
    assert controller.phase == "ended"
    assert controller.queue.running == 0
    harness.task = asyncio.create_task(controller.run())
    await harness.loop.settle()
    assert sorted(key for _, key in harness.seen[2:]) == ["a", "b", "c"]
    origins = {entry.key: entry.origins for entry in harness.telemetry.journal.entries()}
    assert origins["a"] == (Origin("Pod", "", "a", "1", "ADDED"),)


@in_virtual_time
async def test_reconcile_that_swallows_cancellation_ends_the_worker(harness: ControllerHarness) -> None:
    async def reconcile(_key: str) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

    controller = harness.run(reconcile, workers=1)
    controller.queue.add("a")
    controller.queue.add("b")
    await asyncio.sleep(1)
    await asyncio.wait_for(harness.stop(), 1)
    assert [key for _, key in harness.seen] == ["a"]
    assert (controller.phase, controller.queue.depth) == ("ended", 1)


@in_virtual_time
async def test_controller_cannot_run_twice_concurrently(harness: ControllerHarness) -> None:
    controller = harness.run(fine)
    await harness.loop.settle()
    with pytest.raises(RuntimeError, match="loop is already running"):
        await controller.run()


@in_virtual_time
async def test_base_exception_ends_the_controller(harness: ControllerHarness) -> None:
    class FatalError(BaseException):
        pass

    controller = harness.run(failing(FatalError()), workers=1)
    controller.queue.add("a")
    assert harness.task is not None
    with pytest.raises(BaseExceptionGroup) as raised:
        await harness.task
    assert [type(error) for error in raised.value.exceptions] == [FatalError]
    assert controller.queue.depth == 1  # its key waits for the next run


@in_virtual_time
async def test_drain_finishes_queued_keys(harness: ControllerHarness) -> None:
    async def slow(_key: str) -> None:
        await asyncio.sleep(1)

    controller = harness.run(slow, workers=1)
    for key in "abc":
        controller.queue.add(key)
    await harness.loop.settle()
    assert await controller.drain(grace=10)
    assert harness.task is not None
    await harness.task
    assert len(harness.seen) == 3


@in_virtual_time
async def test_drain_stops_after_its_grace_period(harness: ControllerHarness) -> None:
    async def hang(_key: str) -> None:
        await asyncio.Event().wait()

    controller = harness.run(hang, workers=1)
    for key in "ab":
        controller.queue.add(key)
    await harness.loop.settle()
    assert not await controller.drain(grace=10)
    assert harness.loop.time() == pytest.approx(10)
    await harness.stop()
    assert harness.seen == [(0, "a")]


@in_virtual_time
async def test_drain_of_a_controller_that_never_ran_is_immediate(harness: ControllerHarness) -> None:
    controller = Controller[str]("loop", fine, harness.clock)
    controller.queue.add("a")
    assert await controller.drain(grace=10)
    assert harness.loop.time() == 0


@in_virtual_time
async def test_reconciles_without_wait_yield_to_others(harness: ControllerHarness) -> None:
    controller = harness.run(fine, workers=1)
    for number in range(1000):
        controller.queue.add(str(number))
    others = 0
    while controller.queue.depth:
        await asyncio.sleep(0)
        others += 1
    assert others > 10


@in_virtual_time
async def test_journal_has_actions_and_causes(harness: ControllerHarness) -> None:
    async def reconcile(key: str) -> Result | None:
        cause = current_cause()
        assert cause is not None
        if key == "writes":
            cause.record_write(RecordedWrite("create", "pods", "d", "web-1", "7"))
        return Result(requeue_after=5)

    controller = harness.run(reconcile)
    why = (Origin("Pod", "d", "web-0", "6", "DELETED"),)
    controller.queue.add("writes", why)
    await harness.loop.advance(6)
    first, second = harness.telemetry.journal.entries(controller="loop", key="writes")
    assert (first.origins, first.result, first.writes) == (
        why,
        "requeue_after",
        (RecordedWrite("create", "pods", "d", "web-1", "7"),),
    )
    assert second.origins == (Origin("loop", "", "writes", "", "requeue"),)
    assert current_cause() is None


@in_virtual_time
async def test_retry_keeps_the_original_causes(harness: ControllerHarness) -> None:
    controller = harness.run(failing(ValueError("no"), times=2))
    why = (Origin("Pod", "d", "web-0", "6", "DELETED"),)
    controller.queue.add("a", why)
    await harness.loop.advance(1)
    assert [entry.origins for entry in harness.telemetry.journal.entries()] == [why, why, why]


class FakeInformer:
    """Delivers scripted events to handlers."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.handlers: list[ResourceEventHandler] = []
        self.readers = 0
        self._synced = asyncio.Event()

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def sync(self) -> None:
        self._synced.set()

    def add_handler(self, handler: ResourceEventHandler, resync: float = 0.0) -> None:
        self.handlers.append(handler)

    def add_reader(self) -> None:
        self.readers += 1


def pod(name: str, revision: str = "1", owner: str = "") -> core_v1.Pod:
    reference = meta_v1.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=owner, uid="u", controller=True)
    meta = meta_v1.ObjectMeta(
        name=name, namespace="d", resource_version=revision, owner_references=(reference,) if owner else ()
    )
    return core_v1.Pod(metadata=meta)


@in_virtual_time
async def test_work_starts_when_caches_are_synced_and_health_names_missing_ones(harness: ControllerHarness) -> None:
    pods, sets = FakeInformer(PODS), FakeInformer(REPLICASETS)
    seen: list[ObjectKey] = []

    async def reconcile(key: ObjectKey) -> None:
        seen.append(key)

    controller = Controller("rs", reconcile, harness.clock)
    controller.watches(sets, own_key)
    controller.owns(pods, REPLICASETS)
    harness.task = asyncio.create_task(controller.run())
    sets.handlers[0].on_add(apps_v1.ReplicaSet(metadata=meta_v1.ObjectMeta(name="web", namespace="d")))
    sets.sync()
    await harness.loop.advance(100)
    assert (seen, controller.phase, controller.health().ok) == ([], "waiting for caches", True)
    await harness.loop.advance(30)
    assert controller.health() == (False, "waiting for 130 s to list pods")
    pods.sync()
    await harness.loop.settle()
    assert (seen, controller.health().ok) == ([ObjectKey("d", "web")], True)


@in_virtual_time
async def test_read_only_informers_are_awaited_and_enqueue_nothing(harness: ControllerHarness) -> None:
    pods = FakeInformer(PODS)
    controller = Controller[ObjectKey]("rs", _never, harness.clock)
    controller.require_synced(pods)
    running = asyncio.create_task(controller.run())
    await harness.loop.settle()
    assert (controller.phase, pods.readers, pods.handlers) == ("waiting for caches", 1, [])
    pods.sync()
    await harness.loop.settle()
    assert controller.phase == "running"
    running.cancel()


@in_virtual_time
async def test_owned_object_enqueues_its_old_and_new_owner(harness: ControllerHarness) -> None:
    pods = FakeInformer(PODS)
    controller = Controller[ObjectKey]("rs", _never, harness.clock)
    controller.owns(pods, REPLICASETS)
    pods.handlers[0].on_update(pod("p", "1", owner="old"), pod("p", "2", owner="new"))
    controller.queue.shut_down()
    woken = [item for item in [await controller.queue.get(), await controller.queue.get()] if item is not None]
    assert [str(item.key) for item in woken] == ["d/new", "d/old"]
    assert woken[0].origins == (Origin("Pod", "d", "p", "2", "MODIFIED"),)


async def _never(_key: ObjectKey) -> None:
    raise AssertionError


def test_callback_order_does_not_matter() -> None:
    for seed in range(20):
        loop = VirtualLoop(shuffle=random.Random(seed))

        async def main(loop: VirtualLoop = loop) -> None:
            harness = ControllerHarness(loop)
            busy: Counter[str] = Counter()

            async def slow(key: str) -> Result | None:
                busy[key] += 1
                assert busy[key] == 1
                await asyncio.sleep(0.1)
                busy[key] -= 1
                return Result(requeue_after=0.05) if len(harness.seen) < 40 else None

            controller = harness.run(slow, workers=3)
            for key in "abcde":
                controller.queue.add(key)
            await loop.advance(20)
            assert controller.status().errors == 0
            assert len(harness.seen) >= 40
            await harness.stop()

        run_virtual(main(), loop=loop)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="kubeloop.runtime.controller")


# Construction.


class AsyncReconciler:
    async def __call__(self, _: str) -> None: ...


class PlainReconciler:
    def __call__(self, _: str) -> None: ...


async def reconcile_two(_: str, __: str) -> None: ...


def awaitable(key: str) -> Awaitable[None]:
    return reconcile_two(key, key)


def plain(_: str) -> None: ...


@pytest.mark.parametrize("reconcile", [partial(reconcile_two, "a"), AsyncReconciler(), awaitable, AsyncMock()])
def test_anything_that_returns_an_awaitable_is_a_reconcile_function(reconcile: Any) -> None:
    assert Controller("loop", reconcile, SystemClock()).name == "loop"


@pytest.mark.parametrize("reconcile", [plain, partial(plain), PlainReconciler(), lambda _: None])
def test_reconcile_function_that_is_not_async_is_refused(reconcile: Any) -> None:
    with pytest.raises(TypeError, match=r"the reconcile function of loop is not async: write `async def reconcile"):
        Controller("loop", reconcile, SystemClock())


@in_virtual_time
async def test_failing_keys_are_known_until_they_succeed(harness: ControllerHarness) -> None:
    async def reconcile(key: str) -> None:
        if harness.loop.time() < 1:
            raise causes[key]

    gone = errors.not_found("", "pods", "gone")
    causes: dict[str, Exception] = {"gone": gone, "wrong": ValueError("wrong"), "not yet": RuntimeError("not yet")}
    causes |= {
        "all gone": ExceptionGroup("", [gone, gone]),
        "some wrong": ExceptionGroup("", [gone, KeyError("wrong")]),
    }
    controller = harness.run(reconcile)
    for key in causes:
        controller.queue.add(key)
    await asyncio.sleep(0.004)
    assert {key: (one.tries, one.is_defect) for key, one in controller.failures.items()} == {
        "gone": (1, False),
        "wrong": (1, True),
        "not yet": (1, False),
        "all gone": (1, False),
        "some wrong": (1, True),
    }
    assert [key for key, _ in controller.queue.snapshot().delayed] == list(causes)
    await asyncio.sleep(5)
    assert not controller.failures
