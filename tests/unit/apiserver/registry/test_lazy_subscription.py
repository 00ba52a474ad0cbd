# SPDX-License-Identifier: Apache-2.0
"""Tests of lazy subscriptions: created with the first relevant object, and then notified of all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from kubeloop.apiserver.registry.lazy_subscription import LazySubscription
from kubeloop.store import Record, StoreEvent
from kubeloop.store.memory import MemoryStore


class RecordingSubscriber:
    """Subscriber that records its events."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def load(self) -> None:
        self.calls.append("load")

    def on_events(self, events: Sequence[StoreEvent]) -> None:
        self.calls += [event.key for event in events]

    def close(self) -> None:
        self.calls.append("close")


def needs_part(record: Record) -> bool:
    return record.value == b"remote"


async def play(
    before: Sequence[tuple[str, bytes]],
    after: Sequence[tuple[str, bytes]],
    needs_consumer: Callable[[Record], bool] | None = None,
) -> list[str] | None:
    store = MemoryStore()
    await store.start()
    for key, value in before:
        await store.write(key, value)
    subscription = LazySubscription(store, ("/a/", "/b/"), RecordingSubscriber, needs_consumer)
    subscription.start()
    for key, value in after:
        await store.write(key, value)
        await asyncio.sleep(0)
    subscription.close()
    await store.close()
    return None if subscription.consumer is None else subscription.consumer.calls


ONE, OTHER, ELSEWHERE = ("/a/1", b"local"), ("/b/2", b"remote"), ("/c/3", b"remote")


@pytest.mark.parametrize(
    ("before", "after", "calls"),
    [
        ((), (), None),
        ((ELSEWHERE,), (ELSEWHERE,), None),
        ((OTHER,), (), ["load", "close"]),
        ((OTHER,), (ONE,), ["load", "/a/1", "close"]),
        ((), (ONE, OTHER), ["/a/1", "/b/2", "close"]),
    ],
)
def test_first_object_starts_the_subscription(
    before: Sequence[tuple[str, bytes]], after: Sequence[tuple[str, bytes]], calls: list[str] | None
) -> None:
    assert asyncio.run(play(before, after)) == calls


@pytest.mark.parametrize(
    ("before", "after", "calls"),
    [
        ((ONE,), (ONE,), None),
        ((ONE, OTHER), (ONE,), ["load", "/a/1", "close"]),
        ((), (ONE, OTHER, ONE), ["load", "/a/1", "close"]),  # what was passed over is loaded
    ],
)
def test_only_a_relevant_object_starts_the_subscription(
    before: Sequence[tuple[str, bytes]], after: Sequence[tuple[str, bytes]], calls: list[str] | None
) -> None:
    assert asyncio.run(play(before, after, needs_part)) == calls
