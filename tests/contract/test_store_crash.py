# SPDX-License-Identifier: Apache-2.0
"""Tests of crash safety: a killed store has every acknowledged write, and no torn one."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import kubeloop
from kubeloop.store.sqlite.log import SqliteStore

ROUNDS = 10
SOURCE_ROOT = str(Path(kubeloop.__file__).parent.parent)

# Concurrent writers that create, change and delete; acknowledged writes are printed immediately.
WRITER = """
import asyncio, os, sys, zlib
from kubeloop.store.sqlite import checkpoint
from kubeloop.store.sqlite.log import SqliteStore

checkpoint.CHECKPOINT_BYTES = 1_000_000  # small, so that some die in the midst of one

async def main(path, round):
    store = SqliteStore(path, history_bytes=200_000)  # and compaction is at work too
    await store.start()

    async def work(worker):
        for number in range(1_000_000):
            key = f"/{round}/{worker}/{number % 50}"
            body = f"{key} {number} ".encode() * (number % 300 + 1)
            value = None if number % 7 == 6 and store.peek(key) else b"%08x" % zlib.crc32(body) + body
            os.write(1, f"try {key} {number if value else 'gone'}\\n".encode())
            await store.write(key, value)
            os.write(1, f"ack {key} {number if value else 'gone'}\\n".encode())

    await asyncio.gather(*(work(worker) for worker in range(8)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def killed_after(path: Path, round_number: int, lines: int) -> list[str]:
    """Run the writer until it has printed some lines, kill it, and return all output."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(round_number)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCE_ROOT},
    )
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(lines)]
    writer.send_signal(signal.SIGKILL)
    said += writer.stdout.read().splitlines(keepends=True)
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL, "the writer failed before it was killed"
    return [line.decode().rstrip() for line in said if line.endswith(b"\n")]


def expectations(said: list[str]) -> Iterator[tuple[str, set[str]]]:
    """Map each key to its last acknowledged outcome, or the one attempted after it."""
    allowed: dict[str, set[str]] = {}
    for line in said:
        verb, key, outcome = line.split()
        if verb == "ack":
            allowed[key] = {outcome}
        else:
            allowed.setdefault(key, {"gone"}).add(outcome)
    yield from allowed.items()


def outcome_of(store: SqliteStore, key: str) -> str:
    record = store.get(key)
    if record is None:
        return "gone"
    checksum, body = record.value[:8], record.value[8:]
    assert int(checksum, 16) == zlib.crc32(body), f"{key} is torn"
    return body.split()[1].decode()


def test_every_acknowledged_write_survives_kill_nine(tmp_path: Path) -> None:
    chance = random.Random(8)
    path = tmp_path / "store.db"
    known: dict[str, set[str]] = {}

    async def check() -> None:
        store = SqliteStore(str(path))
        await store.start()
        wrong = {key: (outcome_of(store, key), allowed) for key, allowed in known.items()}
        assert [item for item in wrong.items() if item[1][0] not in item[1][1]] == []
        known.update((key, {found}) for key, (found, _) in wrong.items())
        await store.close()

    for round_number in range(ROUNDS):
        said = killed_after(path, round_number, chance.randrange(10, 3000))
        assert any(line.startswith("ack") for line in said) or len(said) < 50
        known.update(expectations(said))
        if round_number % 2:  # every other time the next writer finds the crash as it is
            asyncio.run(check())
    assert len(known) > 100
