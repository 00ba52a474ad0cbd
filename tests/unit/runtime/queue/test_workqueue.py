# SPDX-License-Identifier: Apache-2.0
"""The work queue, one promise at a time; its whole behaviour is held to a model in `test_workqueue_model`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.causes.cause import Origin
from kubeloop.runtime.queue.rate_limiters import ItemExponentialFailureRateLimiter
from kubeloop.runtime.queue.workqueue import FRESH_KEYS_PER_RESYNC, LOW, MAX_RESYNC_DELAY, Item, WorkQueue
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual


def in_virtual_time(test: Callable[[VirtualLoop, WorkQueue[str]], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        loop = VirtualLoop()

        async def main() -> None:
            await test(loop, WorkQueue(VirtualClock(loop), limiter=ItemExponentialFailureRateLimiter[str]()))

        run_virtual(main(), loop=loop)

    run.__name__ = test.__name__
    return run


async def next_of(queue: WorkQueue[str]) -> Item[str]:
    item = await queue.get()
    assert item is not None
    return item


async def rest_of(queue: WorkQueue[str]) -> list[str]:
    """Return the keys of a shut-down queue until it is empty."""
    keys = []
    while (item := await queue.get()) is not None:
        keys.append(item.key)
        queue.done(item.key)
    return keys


@in_virtual_time
async def test_key_added_three_times_is_processed_once(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert (queue.depth, queue.adds) == (2, 2)
    queue.shut_down()
    assert await rest_of(queue) == ["a", "b"]


@in_virtual_time
async def test_key_added_while_processing_is_processed_again(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    queue.add("a")
    await next_of(queue)
    queue.add("a")
    other = asyncio.create_task(queue.get())
    await loop.settle()
    assert not other.done()  # never in two hands
    queue.done("a")
    item = await other
    assert item is not None
    assert item.key == "a"


@in_virtual_time
async def test_change_precedes_queued_resyncs(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    for key in ("r1", "r2", "r3"):
        queue.add(key, priority=LOW)
    queue.add("fresh")
    queue.add("r3")  # a resync that has changed by now is a fresh change
    queue.shut_down()
    assert await rest_of(queue) == ["fresh", "r3", "r1", "r2"]


@in_virtual_time
async def test_resync_of_a_queued_change_keeps_its_priority(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b")
    queue.add("a", priority=LOW)
    queue.shut_down()
    assert await rest_of(queue) == ["a", "b"]


@in_virtual_time
async def test_continuous_changes_do_not_starve_resyncs(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    queue.add("resync", priority=LOW)
    queue.add("another", priority=LOW)
    order = []
    for number in range(3 * FRESH_KEYS_PER_RESYNC):
        queue.add(f"fresh-{number}")
        item = await next_of(queue)
        order.append(item.key)
        queue.done(item.key)
        if number == FRESH_KEYS_PER_RESYNC:
            await loop.advance(MAX_RESYNC_DELAY + 1)
    assert order.index("resync") == FRESH_KEYS_PER_RESYNC + 1  # as soon as its patience is over…
    assert order.index("another") == 2 * FRESH_KEYS_PER_RESYNC + 2  # …and others only after as many fresh ones again


@in_virtual_time
async def test_shortest_of_several_delays_applies(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    await loop.advance(9.9)
    assert (queue.depth, queue.delayed) == (0, 1)
    await loop.advance(0.1)
    assert (queue.depth, queue.delayed) == (1, 0)
    await next_of(queue)
    queue.done("a")
    await loop.advance(100)
    assert queue.depth == 0


@in_virtual_time
async def test_failures_double_the_delay_until_forgotten(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    delays = [queue.add_rate_limited("a") for _ in range(4)]
    assert delays == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert queue.num_requeues("a") == 4
    queue.forget("a")
    assert queue.num_requeues("a") == 0
    assert queue.add_rate_limited("a") == pytest.approx(0.005)


@in_virtual_time
async def test_origins_survive_deduplication_delays_and_work(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    def change(name: str) -> tuple[Origin]:
        return (Origin("Pod", "d", name, "1", "MODIFIED"),)

    queue.add("k", change("first"))
    await next_of(queue)
    queue.add("k", change("second"))
    queue.add("k", change("third"), LOW)
    queue.add_after("k", 5, change("fourth"))
    await loop.advance(5)
    queue.done("k")
    assert [origin.name for origin in (await next_of(queue)).origins] == ["second", "third", "fourth"]


@in_virtual_time
async def test_shut_down_queue_returns_the_rest_and_accepts_nothing(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b")
    queue.add_after("later", 1)
    await next_of(queue)
    queue.add("a")
    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 1)
    drained = asyncio.create_task(queue.wait_drained())
    assert (await next_of(queue)).key == "b"
    queue.done("b")
    await loop.advance(10)
    assert not drained.done()
    queue.done("a")
    assert await rest_of(queue) == ["a"]
    await drained


@in_virtual_time
async def test_shutdown_without_drain_drops_everything(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    queue.add("a")
    await next_of(queue)
    for key in ("a", "b"):
        queue.add(key)
    queue.shut_down(drain=False)
    assert await queue.get() is None
    drained = asyncio.create_task(queue.wait_drained())
    await loop.settle()
    assert not drained.done()  # a is still in work
    queue.done("a")
    await drained
    assert await queue.get() is None


@in_virtual_time
async def test_shutdown_wakes_all_waiters(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await loop.settle()
    queue.shut_down()
    assert await asyncio.gather(*waiting) == [None, None, None]


@in_virtual_time
async def test_longest_running_key_is_known(loop: VirtualLoop, queue: WorkQueue[str]) -> None:
    assert queue.oldest_running() is None
    queue.add("a")
    queue.add("b")
    await next_of(queue)
    await loop.advance(7)
    await next_of(queue)
    await loop.advance(1)
    assert queue.oldest_running() == ("a", 8)
    assert queue.done("a") == 8
    assert queue.oldest_running() == ("b", 1)


def test_metrics_have_depth_adds_retries_and_durations() -> None:
    loop, registry = VirtualLoop(), MetricRegistry()

    async def main() -> str:
        queue = WorkQueue[str](VirtualClock(loop), name="pods", registry=registry)
        queue.add("a")
        queue.add("b")
        queue.add_after("c", 60)
        await loop.advance(0.5)
        await next_of(queue)
        await loop.advance(3)
        await next_of(queue)
        queue.done("b")
        return registry.render()

    text = run_virtual(main(), loop=loop)
    for line in (
        'workqueue_adds_total{name="pods"} 2',
        'workqueue_depth{name="pods"} 0',
        'workqueue_retries_total{name="pods"} 1',
        'workqueue_unfinished_work_seconds{name="pods"} 3',
        'workqueue_longest_running_processor_seconds{name="pods"} 3',
        'workqueue_queue_duration_seconds_bucket{name="pods",le="1"} 1',
        'workqueue_queue_duration_seconds_bucket{name="pods",le="10"} 2',
        'workqueue_work_duration_seconds_count{name="pods"} 1',
    ):
        assert line in text.splitlines()
