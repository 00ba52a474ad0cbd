# SPDX-License-Identifier: Apache-2.0
"""Tests of write-ahead log corruption, as distinct from a crash."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from kubeloop.store import StoreCorrupt
from kubeloop.store.sqlite.file import PAGE_SIZE
from kubeloop.store.sqlite.log import SqliteStore

HEADER = 32
FRAME = 24 + PAGE_SIZE
WRITES = 10


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store as a killed process leaves it: everything is in the write-ahead log."""
    (tmp_path / "alive").mkdir()
    alive = tmp_path / "alive" / "store.db"

    async def main() -> None:
        store = SqliteStore(str(alive))
        await store.start()
        for number in range(WRITES):
            await store.write(f"/k/{number}", bytes(3000))
        shutil.copytree(tmp_path / "alive", tmp_path / "dead")
        await store.close()

    asyncio.run(main())
    return tmp_path / "dead" / "store.db"


def keys_after_start(path: Path) -> int:
    async def main() -> int:
        store = SqliteStore(str(path))
        await store.start()
        found = [record.key for record in store.range("").records]
        await store.close()
        assert found == [f"/k/{number}" for number in range(len(found))], "the writes that are left are the first"
        return len(found)

    return asyncio.run(main())


def log_of(path: Path) -> Path:
    return path.with_name("store.db-wal")


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_an_intact_log_is_replayed(crashed: Path) -> None:
    assert keys_after_start(crashed) == WRITES


@pytest.mark.parametrize("frame", range(WRITES - 1))
@pytest.mark.parametrize("place", [2, 6, 10, 20, 24, 20_000])
def test_corruption_before_a_later_commit_is_reported_repeatedly(crashed: Path, frame: int, place: int) -> None:
    flip(log_of(crashed), HEADER + frame * FRAME + place)
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="write-ahead log is unreadable"):
            keys_after_start(crashed)


@pytest.mark.parametrize("offset", [0, 3, 9, 17, 22, 30])
def test_corruption_in_the_log_header_is_reported(crashed: Path, offset: int) -> None:
    flip(log_of(crashed), offset)
    with pytest.raises(StoreCorrupt, match="write-ahead log is unreadable"):
        keys_after_start(crashed)


@pytest.mark.parametrize("cut", [1, 500, PAGE_SIZE + 10])
def test_truncated_last_transaction_was_never_acknowledged(crashed: Path, cut: int) -> None:
    os.truncate(log_of(crashed), log_of(crashed).stat().st_size - cut)
    assert keys_after_start(crashed) == WRITES - 1


@pytest.mark.parametrize("hole", [1, 3, WRITES - 3])
def test_a_log_that_was_truncated_while_in_use_is_reported(crashed: Path, hole: int) -> None:
    """The process goes on to write where it was, so that the file begins with a hole of zeros."""
    log = log_of(crashed)
    content = log.read_bytes()
    size = HEADER + hole * FRAME
    log.write_bytes(bytes(size) + content[size:])
    with pytest.raises(StoreCorrupt, match="write-ahead log is unreadable"):
        keys_after_start(crashed)


def test_a_log_of_zeros_has_no_acknowledged_write(crashed: Path) -> None:
    """A file system may have given the file its size before a power loss, and not the first transaction."""
    log = log_of(crashed)
    log.write_bytes(bytes(log.stat().st_size))
    assert keys_after_start(crashed) == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_truncation_leaves_a_prefix_of_the_writes(crashed: Path, seed: int) -> None:
    log = log_of(crashed)
    os.truncate(log, random.Random(seed).randrange(log.stat().st_size + 1))
    log.write_bytes(log.read_bytes() + random.Random(seed).randbytes(seed * 1000))  # a torn write behind it
    assert keys_after_start(crashed) <= WRITES


def test_empty_log_is_accepted(crashed: Path) -> None:
    os.truncate(log_of(crashed), 0)
    assert keys_after_start(crashed) == 0


def test_frames_of_an_older_generation_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "alive").mkdir()

    async def main() -> None:
        store = SqliteStore(str(tmp_path / "alive" / "store.db"))
        await store.start()
        for number in range(WRITES):
            await store.write(f"/k/{number}", bytes(3000))
        connection = store._log._connection  # type: ignore[attr-defined]
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        await store.write("/k/0", b"in the first frames of the next generation")
        shutil.copytree(tmp_path / "alive", tmp_path / "dead")
        await store.close()

    asyncio.run(main())
    assert keys_after_start(tmp_path / "dead" / "store.db") == WRITES
