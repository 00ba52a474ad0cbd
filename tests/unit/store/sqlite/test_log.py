# SPDX-License-Identifier: Apache-2.0
"""Tests of the SQLite store beyond the contract: durability and error reports."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import kubeloop
from kubeloop.store import (
    CompactedError,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreInUse,
    engine,
)
from kubeloop.store.backup.fork import fork_sqlite
from kubeloop.store.sqlite import checkpoint, file
from kubeloop.store.sqlite.log import SqliteStore
from tests.bounds import GIVE_UP_SECONDS


@asynccontextmanager
async def opened(path: Path, history_bytes: int = 1_000_000) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(path), history_bytes=history_bytes)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def fill(path: Path, compact_at: int = 0) -> None:
    """Revisions 2 to 41: twenty keys, each written twice."""

    async def main() -> None:
        async with opened(path) as store:
            for _ in range(2):
                await asyncio.gather(*(store.write(f"/k/{n:02}", b"value-%02d" % n * 50) for n in range(20)))
            store.compact(compact_at)

    asyncio.run(main())


def execute(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(sql)
    connection.close()


def rows_in(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    found = [revision for (revision,) in connection.execute("SELECT revision FROM log ORDER BY revision")]
    connection.close()
    return found


def size_of(path: str) -> int:
    return os.path.getsize(path)


def open_error(path: Path) -> StoreError:
    async def main() -> None:
        async with opened(path):
            pass

    with pytest.raises(StoreError) as caught:
        asyncio.run(main())
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)
    return caught.value


def test_reopen_restores_values_history_and_identity(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        async with opened(path) as store:
            await store.write("/a", b"1")
            await store.write("/b", b"1")
            await store.write("/a", b"2")
            await store.write("/b", None)
            before = (store.revision, store.range(""), store._history.since(1), store.cluster_id)
        assert len(before[3]) == 36
        async with opened(path) as store:
            assert (store.revision, store.range(""), store._history.since(1), store.cluster_id) == before
            assert [record.value for record in store.range("", revision=3).records] == [b"1", b"1"]
            assert (await store.write("/b", b"new", 0)).revision == 6

    asyncio.run(main())


def test_clean_close_leaves_one_file_and_the_lock(tmp_path: Path) -> None:
    fill(tmp_path / "store.db")
    assert sorted(os.listdir(tmp_path)) == ["store.db", "store.db.lock"]


def test_every_commit_is_flushed_and_checkpoints_are_explicit(tmp_path: Path) -> None:
    async def main() -> list[object]:
        async with opened(tmp_path / "store.db") as store:
            connection = store._log._connection  # type: ignore[attr-defined]
            names = ("synchronous", "journal_mode", "wal_autocheckpoint", "page_size")
            return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    full = 2
    assert asyncio.run(main()) == [full, "wal", 0, 32768]


def test_compaction_removes_rows_and_is_persistent(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        async with opened(path) as store:
            for _ in range(3):
                await asyncio.gather(*(store.write(f"/k/{n}", b"x") for n in range(100)))
            await asyncio.gather(*(store.write(f"/k/{n}", None) for n in range(99)))
            store.compact(store.revision)
            for _ in range(5):  # each takes a slice along
                await store.write("/after", b"")
        assert rows_in(path) == [301, *range(401, 406)]  # what is current, and what came after the compaction
        async with opened(path) as store:
            assert (store.compact_revision, store.revision) == (400, 405)
            assert [record.key for record in store.range("").records] == ["/after", "/k/99"]
            with pytest.raises(CompactedError):
                store.watch("", 399)

    asyncio.run(main())


def test_the_revision_survives_when_compaction_leaves_no_row(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        async with opened(path) as store:
            await store.write("/a", b"1")
            await store.write("/a", None)
            store.compact(3)
        assert rows_in(path) == []
        async with opened(path) as store:
            assert (await store.write("/a", b"2")).revision == 4

    asyncio.run(main())


def test_an_interrupted_compaction_is_finished_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fill(path)
    execute(path, "UPDATE meta SET value = 41 WHERE name = 'compact_revision'")

    async def main() -> None:
        async with opened(path) as store:
            assert len(store.range("").records) == 20
            assert len(store._history) == 0
            await store.write("/a", b"")

    asyncio.run(main())
    assert rows_in(path) == [*range(22, 42), 42]


def test_a_full_disk_fails_the_batch_and_the_store_recovers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        async with opened(path) as store:
            await store.write("/a", b"kept")
            connection = store._log._connection  # type: ignore[attr-defined]
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages}").fetchall()
            with pytest.raises(StoreError, match=r"could not write: database or disk is full"):
                await asyncio.gather(store.write("/b", b"small"), store.write("/c", bytes(1_000_000)))
            assert [record.key for record in store.range("").records] == ["/a"]
            connection.execute("PRAGMA max_page_count=1000000").fetchall()
            await store.write("/c", bytes(1_000_000))
        async with opened(path) as store:
            assert [record.key for record in store.range("").records] == ["/a", "/c"]

    asyncio.run(main())


def test_full_disk_reports_etcds_message_until_a_retry_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TRY_SECONDS", 0.01)

    async def main() -> None:
        async with opened(tmp_path / "store.db") as store:
            await store.write("/a", b"kept")
            connection = store._log._connection  # type: ignore[attr-defined]
            trials = []

            def touch(used: sqlite3.Connection) -> None:
                trials.append(used)
                if len(trials) < 3:
                    raise sqlite3.OperationalError("still no room")
                really_touch(used)

            really_touch = file.touch
            monkeypatch.setattr(file, "touch", touch)
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages}").fetchall()
            with pytest.raises(
                StoreFull, match=r"^etcdserver: mvcc: database space exceeded: the store .*disk is full$"
            ):
                await store.write("/c", bytes(1_000_000))
            assert store.last_error.startswith("etcdserver: mvcc: database space exceeded")
            async with asyncio.timeout(GIVE_UP_SECONDS):
                while store.last_error:  # noqa: ASYNC110  # nothing else tells
                    await asyncio.sleep(0.005)
            assert len(trials) == 3
            assert store.revision == 2, "a trial leaves nothing behind"

    asyncio.run(main())


def test_checkpoints_keep_the_write_ahead_log_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_BYTES", 1_000_000)
    path = tmp_path / "store.db"

    async def main() -> None:
        async with opened(path) as store:
            for number in range(300):
                await store.write(f"/{number}", bytes(100_000))
            assert size_of(f"{path}-wal") < 20_000_000 < size_of(str(path))
            assert len(store.range("").records) == 300

    asyncio.run(main())


def test_large_batch_is_atomic(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path / "store.db", history_bytes=100_000_000) as store:
            await asyncio.gather(*(store.write(f"/{number}", b"") for number in range(6000)))
        async with opened(tmp_path / "store.db", history_bytes=100_000_000) as store:
            assert store.revision == 6001

    asyncio.run(main())


def test_second_instance_is_rejected_with_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        async with opened(path) as store:
            with pytest.raises(StoreInUse, match=f"in use by another process .pid {os.getpid()}."):
                await SqliteStore(str(path)).start()
            await store.write("/a", b"the first one is not disturbed")
        async with opened(path):
            pass

    asyncio.run(main())


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    hold = (
        "import os, sys; from kubeloop.store.sqlite.filelock import FileLock;"
        "FileLock(sys.argv[1]).acquire('it'); print('held', flush=True); os.kill(os.getpid(), 9)"
    )
    root = str(Path(kubeloop.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": root}
    holder = subprocess.run(
        [sys.executable, "-c", hold, f"{path}.lock"], check=False, env=environment, capture_output=True
    )
    assert (holder.stdout, holder.returncode) == (b"held\n", -9)
    fill(path)


def test_missing_or_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert "No such file or directory" in str(open_error(tmp_path / "nowhere" / "store.db"))
    assert "Not a directory" in str(open_error(tmp_path / "file" / "store.db"))


def test_folder_without_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    opens = (
        "import asyncio, sys; from kubeloop.store.sqlite.log import SqliteStore;"
        "asyncio.run(SqliteStore(sys.argv[1], history_bytes=1).start())"
    )
    command = [sys.executable, "-c", opens, str(tmp_path / "store.db")]
    # Root without these capabilities may write only where the file's permissions allow it.
    as_plain_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run([*as_plain_user, *command], capture_output=True, text=True)
    assert "StoreError" in done.stderr
    assert "Permission denied" in done.stderr


def test_read_only_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "store.db")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # permissions do not stop an administrator
    assert "read-only" in str(open_error(tmp_path / "store.db"))


def test_folder_in_place_of_the_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    assert "cannot open the store" in str(open_error(tmp_path / "store.db"))


@pytest.mark.parametrize("content", [b"", b"not a database, " * 100, b"SQLite format 3\0" + bytes(84)])
def test_file_that_is_not_a_database_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.db").write_bytes(content)
    assert isinstance(open_error(tmp_path / "store.db"), StoreCorrupt)
    assert (tmp_path / "store.db").read_bytes() == content


def test_foreign_database_is_reported_and_unchanged(tmp_path: Path) -> None:
    execute(tmp_path / "store.db", "CREATE TABLE theirs (x)")
    assert "not one of this store" in str(open_error(tmp_path / "store.db"))


def test_newer_schema_is_reported(tmp_path: Path) -> None:
    fill(tmp_path / "store.db")
    execute(tmp_path / "store.db", "UPDATE meta SET value = 99 WHERE name = 'schema'")
    assert "version 99" in str(open_error(tmp_path / "store.db"))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE log SET value = zeroblob(450) WHERE revision = 30", "revision 30 does not match its checksum"),
        ("UPDATE log SET key = '/k/x' WHERE revision = 30", "revision 30 does not match its checksum"),
        ("UPDATE log SET value = NULL WHERE revision = 30", "revision 30 does not match its checksum"),
        ("UPDATE log SET value = CAST(value AS TEXT) WHERE revision = 30", "revision 30"),
        ("DELETE FROM log WHERE revision = 30", "revisions between 29 and 31 are missing"),
        ("DELETE FROM log WHERE revision = 2", "missing"),
        ("DELETE FROM meta WHERE name = 'compact_revision'", "meta table is incomplete"),
        ("DROP TABLE log", "tables are missing"),
    ],
)
def test_corrupt_rows_are_reported(tmp_path: Path, damage: str, told: str) -> None:
    fill(tmp_path / "store.db")
    execute(tmp_path / "store.db", damage)
    error = open_error(tmp_path / "store.db")
    assert isinstance(error, StoreCorrupt)
    assert told in str(error)


def test_lost_value_is_detected_by_the_following_change(tmp_path: Path) -> None:
    fill(tmp_path / "store.db", compact_at=21)
    execute(tmp_path / "store.db", "DELETE FROM log WHERE revision = 10")
    assert "the state before revision 30 is missing" in str(open_error(tmp_path / "store.db"))


@pytest.mark.parametrize("offset", range(100, 32768 * 3, 7777))
def test_flipped_byte_is_reported_or_harmless(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "store.db"
    fill(path)
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)

    async def main() -> None:
        async with opened(path) as store:
            values = [record.value for record in store.range("").records]
            assert values == [b"value-%02d" % n * 50 for n in range(20)]
            assert len(store._history) == 40

    with suppress(StoreCorrupt):
        asyncio.run(main())


@pytest.mark.parametrize("keep", [50, 4096, 32768, 40000])
def test_truncated_file_is_reported(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "store.db"
    fill(path)
    os.truncate(path, keep)
    assert isinstance(open_error(path), StoreCorrupt)


def test_write_ahead_log_without_its_main_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store.db-wal").write_bytes(b"x" * 100)
    assert "main file is missing" in str(open_error(tmp_path / "store.db"))


def test_incomplete_new_file_is_recreated(tmp_path: Path) -> None:
    (tmp_path / "store.db.new").write_bytes(b"interrupted")
    fill(tmp_path / "store.db")
    assert not (tmp_path / "store.db.new").exists()


def test_current_values_can_be_read_with_sql(tmp_path: Path) -> None:
    fill(tmp_path / "store.db")
    shutil.copy(tmp_path / "store.db", tmp_path / "copy.db")
    connection = sqlite3.connect(tmp_path / "copy.db")
    rows = connection.execute("SELECT key, revision, value FROM current ORDER BY key").fetchall()
    connection.close()
    assert len(rows) == 20
    assert rows[3] == ("/k/03", 25, "value-03" * 50)


def permissions_in(folder: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mode & 0o777 for one in folder.iterdir() if one.is_file()}


@pytest.mark.parametrize("mask", [0o022, 0])
def test_only_the_owner_may_read_the_files(tmp_path: Path, mask: int) -> None:
    """Files hold secrets, and the folder may be readable by other users."""
    path = tmp_path / "store.db"
    tmp_path.chmod(0o755)

    async def run() -> None:
        async with opened(path) as store:
            await store.write("/a", b"1", 0)
            files = permissions_in(tmp_path)
            assert {"store.db", "store.db-wal"} <= files.keys()
            assert set(files.values()) == {0o600}
            fork_sqlite(str(path), str(tmp_path / "fork.db"))
        fork_sqlite(str(path), str(tmp_path / "fork2.db"))
        for name in ("fork.db", "fork2.db"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)  # as older versions left it
        async with opened(path):
            assert path.stat().st_mode & 0o777 == 0o600

    before = os.umask(mask)
    try:
        asyncio.run(run())
    finally:
        os.umask(before)
