# SPDX-License-Identifier: Apache-2.0
"""History is kept for one to two intervals."""

from __future__ import annotations

import asyncio

from kubeloop.apiserver.background.compaction import Compactor
from kubeloop.store.memory import MemoryStore


def test_each_compaction_drops_history_before_the_previous_one() -> None:
    async def scenario() -> list[int]:
        store = MemoryStore()
        await store.start()
        await store.write("/a", b"1")
        compactor = Compactor(store)
        seen = []
        for value in (b"2", b"3"):
            await store.write("/a", value)
            compactor.compact()
            seen.append(store.compact_revision)
        await store.close()
        return seen

    assert asyncio.run(scenario()) == [2, 3]


def test_unchanged_store_is_not_compacted() -> None:
    async def scenario() -> int:
        store = MemoryStore()
        await store.start()
        compactor = Compactor(store)
        for _ in range(3):
            compactor.compact()
        compacted = store.compact_revision
        await store.write("/a", b"1")
        assert [event.revision for event in await anext(aiter(store.watch("/", 1)))] == [2]
        await store.close()
        return compacted

    assert asyncio.run(scenario()) <= 1
