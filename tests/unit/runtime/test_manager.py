# SPDX-License-Identifier: Apache-2.0
"""Tests of supervision: crashed and hung loops are reported and restarted without affecting others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import pytest

from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.controller import STUCK_AFTER, UNSYNCED_AFTER, Controller, ControllerStatus, Health
from kubeloop.runtime.manager import Incident, LoopManager, SupervisorTimeouts
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual

BOUNDS = SupervisorTimeouts()


class ManagerHarness:
    """A manager in virtual time, and what it reported."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.registry = MetricRegistry()
        self.incidents: list[Incident] = []
        self._running: asyncio.Task[None] | None = None

    def keep(self, *loops: Controller[str] | ScriptedLoop) -> LoopManager:
        self.manager = LoopManager(loops, self.clock, registry=self.registry, report=self.incidents.append)
        self._running = asyncio.ensure_future(self.manager.run())
        return self.manager

    def controller(self, name: str, reconcile: Callable[[str], Awaitable[None]], workers: int = 2) -> Controller[str]:
        return Controller(name, reconcile, self.clock, workers=workers)

    async def end(self) -> None:
        """Stop, like SIGTERM."""
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])


def play(scenario: Callable[[ManagerHarness], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    run_virtual(_main(scenario, ManagerHarness(loop)), loop=loop)


async def _main(scenario: Callable[[ManagerHarness], Awaitable[None]], bench: ManagerHarness) -> None:
    await scenario(bench)


class ScriptedLoop:
    """Loop with scripted runs."""

    def __init__(self, name: str, *runs: Callable[[], Awaitable[None]], depth: int = 0) -> None:
        self.name = name
        self.starts: list[float] = []
        self._runs = list(runs)
        self.depth = depth
        self.drained_with: list[float] = []

    async def run(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        await self._runs.pop(0)() if self._runs else await forever()

    async def drain(self, grace: float) -> bool:
        self.drained_with.append(grace)
        return True

    def health(self) -> Health:
        return Health(True)

    def status(self) -> ControllerStatus:
        return ControllerStatus(
            name=self.name, phase="running", healthy=True, why="", workers=1, active=0, depth=self.depth, delayed=0,
            reconciles=0, errors=0, busy_seconds=0.0, last_error="", last_error_key="",
        )  # fmt: skip


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def crash() -> None:
    raise ValueError("broken")


async def leave() -> None:
    raise SystemExit(3)


async def return_at_once() -> None:
    return


async def nothing(_: str) -> None:
    return


@pytest.mark.parametrize(
    ("run", "why"),
    [(crash, "ValueError: broken"), (leave, "RuntimeError: called exit(3)"), (return_at_once, "exited unexpectedly")],
)
def test_exited_loop_is_restarted_and_reported(run: Callable[[], Awaitable[None]], why: str) -> None:
    async def scenario(bench: ManagerHarness) -> None:
        loop = ScriptedLoop("a", run)
        manager = bench.keep(loop)
        await bench.loop.settle()
        assert manager.health("a") == Health(False, f"{why}; restart pending")
        assert bench.incidents == [Incident("a", "LoopCrashed", why)]
        await bench.loop.advance(2 * BOUNDS.first_delay)
        assert manager.health("a").ok
        assert len(loop.starts) == 2
        (status,) = manager.status()
        assert (status.restarts, status.last_failure, status.state) == (1, why, "running")
        assert 'kubeloop_loop_restarts_total{name="a"} 1' in bench.registry.render()
        await bench.end()

    play(scenario)


def test_crashing_loop_is_restarted_with_backoff() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        loop = ScriptedLoop("a", *[crash] * 50)
        bench.keep(loop)
        await bench.loop.advance(600)
        pauses = [after - before for before, after in zip(loop.starts, loop.starts[1:], strict=False)]
        assert BOUNDS.first_delay <= pauses[0] <= 2 * BOUNDS.first_delay
        assert all(BOUNDS.longest_delay <= pause <= 2 * BOUNDS.longest_delay for pause in pauses[6:])
        assert len(loop.starts) < 20
        await bench.end()

    play(scenario)


def test_recovered_loop_restarts_soon_after_its_next_failure() -> None:
    async def fail_later() -> None:
        await asyncio.sleep(2 * BOUNDS.healthy_after)
        await crash()

    async def scenario(bench: ManagerHarness) -> None:
        loop = ScriptedLoop("a", *[crash] * 6, fail_later)
        bench.keep(loop)
        await bench.loop.advance(3 * BOUNDS.healthy_after)
        assert len(loop.starts) == 8
        assert loop.starts[7] - loop.starts[6] - 2 * BOUNDS.healthy_after <= 2 * BOUNDS.first_delay
        await bench.end()

    play(scenario)


def test_crash_of_one_loop_does_not_affect_others() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        done: list[str] = []

        async def reconcile(key: str) -> None:
            done.append(key)

        other = bench.controller("other", reconcile)
        manager = bench.keep(ScriptedLoop("ill", *[crash] * 100), other)
        for number in range(10):
            other.queue.add(str(number))
            await bench.loop.advance(10)
        assert len(done) == 10
        assert manager.health("other").ok
        await bench.end()

    play(scenario)


def test_hanging_reconcile_ends_the_run_and_its_key_is_retried() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        tries: list[str] = []

        async def reconcile(key: str) -> None:
            tries.append(key)
            if len(tries) == 1:
                await forever()

        loop = bench.controller("a", reconcile)
        manager = bench.keep(loop, bench.controller("b", nothing))
        loop.queue.add("x")
        await bench.loop.advance(STUCK_AFTER - 1)
        assert manager.health("a").ok
        await bench.loop.advance(2 * BOUNDS.check_period)
        assert [one.reason for one in bench.incidents] == ["LoopHung"]
        assert bench.incidents[0].why.endswith("on x")
        await bench.loop.advance(2 * BOUNDS.first_delay)
        assert tries == ["x", "x"]
        assert manager.health("a").ok
        assert [one.restarts for one in manager.status()] == [1, 0]
        await bench.end()

    play(scenario)


def test_loop_that_ignores_cancellation_stays_unhealthy_and_isolated() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        insight = asyncio.Event()

        async def run() -> None:
            while not insight.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await insight.wait()

        loop = ScriptedLoop("a", run, depth=1)
        manager = bench.keep(loop, bench.controller("b", nothing))
        await bench.loop.advance(3 * STUCK_AFTER)
        assert manager.status()[0].state == "hung"
        assert "but still running" in manager.health("a").reason
        assert manager.health("b").ok
        assert len(bench.incidents) == 1
        insight.set()
        await bench.loop.advance(2 * BOUNDS.first_delay)
        assert manager.health("a").ok
        await bench.end()

    play(scenario)


def test_loop_without_progress_on_queued_keys_is_restarted() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        loop = ScriptedLoop("a", depth=3)
        bench.keep(loop)
        await bench.loop.advance(BOUNDS.progress_timeout + 2 * BOUNDS.check_period)
        assert [one.reason for one in bench.incidents] == ["LoopHung"]
        assert bench.incidents[0].why.startswith("3 keys are queued")
        await bench.loop.advance(2 * BOUNDS.first_delay)
        assert len(loop.starts) == 2
        await bench.end()

    play(scenario)


def test_idle_loop_is_healthy() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        manager = bench.keep(bench.controller("a", nothing))
        await bench.loop.advance(86400)
        assert manager.health("a").ok
        assert bench.incidents == []
        await bench.end()

    play(scenario)


class UnsyncedInformer:
    """Informer that never syncs."""

    has_synced = False

    def __init__(self) -> None:
        from kubeloop.api.kinds import RESOURCES

        self.resource = RESOURCES[0]

    async def wait_synced(self) -> None:
        await forever()

    def add_handler(self, handler: object, resync: float = 0.0) -> None:
        pass

    def add_reader(self) -> None:
        pass


def test_loop_without_synced_caches_is_unhealthy_but_not_restarted() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        loop = bench.controller("a", nothing)
        source = UnsyncedInformer()
        loop.watches(source, lambda obj: ())
        manager = bench.keep(loop)
        await bench.loop.advance(UNSYNCED_AFTER + 10 * BOUNDS.check_period)
        assert source.resource.group_resource in manager.health("a").reason
        assert [one.reason for one in bench.incidents] == ["LoopWaiting"]
        assert manager.status()[0].restarts == 0
        await bench.end()

    play(scenario)


def test_shutdown_waits_for_queued_keys() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        done: list[str] = []

        async def reconcile(key: str) -> None:
            await asyncio.sleep(2)
            done.append(key)

        loop = bench.controller("a", reconcile, workers=1)
        manager = bench.keep(loop)
        for key in ("x", "y", "z"):
            loop.queue.add(key)
        await bench.loop.settle()
        await bench.end()
        assert done == ["x", "y", "z"]
        assert manager.status()[0].state == "ended"

    play(scenario)


def test_shutdown_wait_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: ManagerHarness) -> None:
        async def reconcile(key: str) -> None:
            await asyncio.sleep(1000)

        loop = bench.controller("a", reconcile)
        bench.keep(loop)
        loop.queue.add("x")
        await bench.loop.settle()
        before = bench.loop.time()
        await bench.end()
        assert bench.loop.time() - before == 10

    with caplog.at_level(logging.WARNING):
        play(scenario)
    assert "not all queues were drained within 10 s: a" in caplog.text


def test_loop_waiting_for_restart_does_not_delay_shutdown() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        loop = ScriptedLoop("a", crash, crash)
        bench.keep(loop)
        await bench.loop.settle()
        await bench.end()
        assert loop.drained_with == [0.0]
        assert len(loop.starts) == 1

    play(scenario)


def test_status_has_the_rate_of_the_last_minute() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        async def reconcile(key: str) -> None:
            await asyncio.sleep(0.25)

        loop = bench.controller("a", reconcile, workers=1)
        manager = bench.keep(loop)
        for second in range(120):
            loop.queue.add(str(second))
            await bench.loop.advance(1)
        (status,) = manager.status()
        assert status.rate == pytest.approx(1.0, rel=0.05)
        assert status.latency == pytest.approx(0.25)
        assert status.reconciles == 120
        await bench.loop.advance(120)
        assert (manager.status()[0].rate, manager.status()[0].latency) == (0.0, 0.0)
        await bench.end()

    play(scenario)


def test_status_has_the_last_error() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        async def reconcile(key: str) -> None:
            raise ValueError("no such thing")

        loop = bench.controller("a", reconcile)
        manager = bench.keep(loop)
        loop.queue.add("x")
        await bench.loop.advance(0.001)
        (status,) = manager.status()
        assert (status.last_error_key, status.last_error) == ("x", "ValueError: no such thing")
        assert status.healthy  # one key that fails is no ill loop
        await bench.end()

    play(scenario)


def test_failing_reporter_does_not_affect_the_loop() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        def report(_: Incident) -> None:
            raise OSError("no events today")

        loop = ScriptedLoop("a", crash)
        manager = LoopManager([loop], bench.clock, report=report)
        running = asyncio.ensure_future(manager.run())
        await bench.loop.advance(5)
        assert manager.health("a").ok
        running.cancel()
        await asyncio.wait([running])

    play(scenario)


def test_suspended_process_does_not_judge_by_the_clock() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        async def reconcile(key: str) -> None:
            await asyncio.sleep(1)

        loop = bench.controller("a", reconcile)
        bench.keep(loop)
        loop.queue.add("x")
        await bench.loop.settle()
        bench.loop._now += 1000  # as after SIGSTOP: all timers are late together
        await bench.loop.advance(2 * BOUNDS.check_period)
        assert bench.incidents == []
        await bench.end()

    play(scenario)


def test_duplicate_loop_names_are_rejected() -> None:
    async def scenario(bench: ManagerHarness) -> None:
        with pytest.raises(ValueError, match="two loops are named a"):
            LoopManager([ScriptedLoop("a"), ScriptedLoop("a")], bench.clock)

    play(scenario)
