# SPDX-License-Identifier: Apache-2.0
"""Garbage is collected after an idle period, if there are enough new objects."""

import asyncio
import gc

import pytest

from kubeloop.cli.program.idle_collection import IdleCollector, collect_when_idle


@pytest.mark.parametrize(
    ("used", "new_objects", "collections"),
    [(0.0, 50_000, 1), (0.04, 50_000, 1), (0.2, 50_000, 0), (0.0, 4_000, 0)],
    ids=["idle", "nearly idle", "busy", "too few objects"],
)
def test_collects_after_an_idle_period(used: float, new_objects: int, collections: int) -> None:
    collected: list[int] = []
    times = iter([1.0, 1.0 + used, 2.0])
    IdleCollector(lambda: next(times), lambda: new_objects, collected.append).end_period()
    assert collected == [1] * collections


def test_own_work_does_not_make_the_next_period_busy() -> None:
    collected: list[int] = []
    times = iter([1.0, 1.0, 1.5, 1.5, 1.5])
    collector = IdleCollector(lambda: next(times), lambda: 50_000, collected.append)
    collector.end_period()
    collector.end_period()
    assert collected == [1, 1]


def test_a_real_collection_takes_place_in_an_idle_process() -> None:
    generations: list[int] = []
    has_collected = asyncio.Event()

    def on_collection(phase: str, info: dict[str, int]) -> None:
        generations.append(info["generation"])
        has_collected.set()

    async def check() -> None:
        task = asyncio.create_task(collect_when_idle())
        kept = [[number] for number in range(20_000)]
        await has_collected.wait()
        del kept
        task.cancel()

    thresholds = gc.get_threshold()
    gc.collect()
    gc.set_threshold(10**9)
    gc.callbacks.append(on_collection)
    try:
        asyncio.run(check())
    finally:
        gc.callbacks.remove(on_collection)
        gc.set_threshold(*thresholds)
    assert generations[0] == 1
