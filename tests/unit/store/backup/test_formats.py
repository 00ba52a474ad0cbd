# SPDX-License-Identifier: Apache-2.0
"""The number beside stored data: newer data is left alone, older data is brought forward, even if interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kubeloop.store import StoreError
from kubeloop.store.backup.formats import FORMAT_KEY, FormatMigration, ensure_format
from kubeloop.store.memory import MemoryStore


def append_exclamation(key: str, value: bytes) -> bytes | None:
    if key.endswith("/gone"):
        return None
    return value if value.endswith(b"!") else value + b"!"


def shouted(key: str, value: bytes) -> bytes | None:
    return value.upper()


STEPS = (FormatMigration(2, append_exclamation), FormatMigration(3, shouted))


def play(scenario: Callable[[MemoryStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.start()
        await scenario(store)
        await store.close()

    asyncio.run(main())


def value(store: MemoryStore, key: str) -> bytes | None:
    record = store.get(key)
    return None if record is None else record.value


def test_empty_store_has_the_latest_format() -> None:
    async def scenario(store: MemoryStore) -> None:
        await ensure_format(store, STEPS)
        assert value(store, FORMAT_KEY) == b"3"
        revision = store.revision
        await ensure_format(store, STEPS)
        assert store.revision == revision

    play(scenario)


def test_data_without_a_format_is_migrated_completely() -> None:
    async def scenario(store: MemoryStore) -> None:
        for number in range(300):
            await store.write(f"/registry/{number}", b"word")
        await store.write("/registry/gone", b"word")
        await ensure_format(store, STEPS)
        assert {one.value for one in store.range("/registry/").records if one.key != FORMAT_KEY} == {b"WORD!"}
        assert value(store, "/registry/gone") is None
        assert value(store, FORMAT_KEY) == b"3"

    play(scenario)


def test_interrupted_migration_step_is_idempotent() -> None:
    async def scenario(store: MemoryStore) -> None:
        await store.write(FORMAT_KEY, b"1")
        await store.write("/registry/done", b"word!")
        await store.write("/registry/left", b"word")
        await ensure_format(store, STEPS[:1])
        assert value(store, "/registry/done") == value(store, "/registry/left") == b"word!"
        assert value(store, FORMAT_KEY) == b"2"

    play(scenario)


def test_newer_data_is_rejected_unchanged() -> None:
    async def scenario(store: MemoryStore) -> None:
        await store.write(FORMAT_KEY, b"4")
        with pytest.raises(StoreError, match="has format 4, but this version supports formats up to 3"):
            await ensure_format(store, STEPS)
        await store.write(FORMAT_KEY, b"four")
        with pytest.raises(StoreError, match="not a number"):
            await ensure_format(store, STEPS)

    play(scenario)


def test_in_memory_fork_is_independent() -> None:
    async def scenario(store: MemoryStore) -> None:
        for number in range(50):
            await store.write(f"/{number}", b"old")
        await store.write("/1", b"changed")
        fork = store.fork()
        await fork.start()
        assert fork.range("") == store.range("")
        assert fork.range("", revision=30) == store.range("", revision=30)
        mine, theirs = await store.write("/2", b"mine"), await fork.write("/3", b"theirs")
        assert mine.revision == theirs.revision
        assert value(store, "/3") == value(fork, "/2") == b"old"
        assert fork.get("/4") is store.get("/4")  # what neither has changed is one and the same
        await fork.close()

    play(scenario)
