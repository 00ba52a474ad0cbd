# SPDX-License-Identifier: Apache-2.0
"""A store in a file, out of it, in another backend: the same state, no revision goes back, damage is refused."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.cli.main import main as run_program
from kubeloop.store import CompactedError, Record, Store, StoreError, StoreInUse, open_store
from kubeloop.store.backup.fork import fork_sqlite
from kubeloop.store.backup.migrate import RestoreOptions, move, restore, save
from kubeloop.store.backup.snapshot import read_snapshot
from kubeloop.store.sqlite.log import SqliteStore
from tests.contract.stores import EtcdSupply
from tests.etcd_processes import EtcdCluster

AGAIN = RestoreOptions(revision_offset=1000)
JUST_SO = RestoreOptions()


@pytest.fixture(scope="module")
def cluster(etcd_servers: EtcdSupply) -> Iterator[EtcdCluster]:
    with etcd_servers.fresh() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def etcd_url(cluster: EtcdCluster) -> Callable[[], str]:
    """Use another prefix of the same etcd each time."""
    numbers = itertools.count()
    return lambda: f"etcd://{cluster.members[0].endpoint}/moving{next(numbers)}"


def url_in(folder: Path, name: str = "store.db") -> str:
    return f"sqlite:{folder / name}"


async def fill(url: str, keys: int = 20) -> dict[str, bytes]:
    """Keys that come, change and go."""
    store = await opened(url)
    for number in range(keys):
        await store.write(f"/registry/things/{number}", b"first")
    for number in range(0, keys, 3):
        await store.write(f"/registry/things/{number}", f"changed {number}".encode() * 50)
    await store.write("/registry/things/1", None)
    found = values(store)
    await store.close()
    return found


async def opened(url: str) -> Store:
    store = open_store(url)
    await store.start()
    return store


def values(store: Store) -> dict[str, bytes]:
    return {record.key: record.value for record in store.range("").records}


def test_snapshot_restores_the_same_state_in_every_backend(tmp_path: Path, etcd_url: Callable[[], str]) -> None:
    async def main() -> None:
        for number, source in enumerate((url_in(tmp_path), etcd_url())):
            written, file = await fill(source), str(tmp_path / f"saved{number}")
            saved = await save(source, file)
            for target in (url_in(tmp_path, f"restored{number}.db"), etcd_url()):
                revision = await restore(file, target, AGAIN)
                store = await opened(target)
                assert values(store) == written
                assert store.revision >= revision >= saved + 1000
                with pytest.raises(CompactedError):
                    store.subscribe("", saved, lambda _: None)  # existing watchers must relist
                event = await store.write("/registry/things/2", b"later")
                assert event.revision > revision
                assert event.record is not None
                assert event.record == store.get("/registry/things/2")
                await store.close()

    asyncio.run(main())


def test_migration_within_sqlite_keeps_revisions_and_history(tmp_path: Path) -> None:
    async def main() -> None:
        source, target = url_in(tmp_path), url_in(tmp_path, "moved.db")
        await fill(source)
        await move(source, target, JUST_SO)
        before, after = await opened(source), await opened(target)
        assert after.range("") == before.range("")
        middle = before.revision - 5
        assert after.range("", revision=middle) == before.range("", revision=middle)
        with pytest.raises(StoreInUse):
            await move(source, url_in(tmp_path, "another.db"), JUST_SO)
        await before.close()
        await after.close()

    asyncio.run(main())


def test_migration_to_etcd_and_back_never_lowers_a_revision(tmp_path: Path, etcd_url: Callable[[], str]) -> None:
    async def main() -> None:
        source, shared = url_in(tmp_path), etcd_url()
        written = await fill(source)
        store = await opened(source)
        reached = store.revision
        await store.close()
        there = await move(source, shared, JUST_SO)
        assert there >= reached
        back = await move(shared, url_in(tmp_path, "back.db"), JUST_SO)
        assert back >= there
        one, other = await opened(shared), await opened(shared)  # two servers agree on revisions
        event = await one.write("/registry/things/5", b"by one")
        await other.wait_current()
        assert other.get("/registry/things/5") == event.record
        assert values(one) == written | {"/registry/things/5": b"by one"}
        await one.close()
        await other.close()

    asyncio.run(main())


def test_existing_data_is_replaced_only_with_force_and_revisions_increase(
    tmp_path: Path, etcd_url: Callable[[], str]
) -> None:
    async def main() -> None:
        source, file = url_in(tmp_path), str(tmp_path / "saved")
        written = await fill(source)
        await save(source, file)
        for target in (url_in(tmp_path, "full.db"), etcd_url()):
            await fill(target, keys=60)
            full = await opened(target)
            reached = full.revision
            await full.close()
            with pytest.raises(StoreError, match="would be replaced"):
                await restore(file, target, JUST_SO)
            assert await restore(file, target, RestoreOptions(replace=True)) > reached
            store = await opened(target)
            assert values(store) == written
            await store.close()

    asyncio.run(main())


def test_etcd_in_use_is_not_overwritten(etcd_url: Callable[[], str], tmp_path: Path) -> None:
    async def main() -> None:
        source, target, file = url_in(tmp_path), etcd_url(), str(tmp_path / "saved")
        await fill(source)
        await save(source, file)
        running = await opened(target)
        await running.write("/registry/masterleases/a", b"")
        how = RestoreOptions(replace=True, excluded_prefixes=("/registry/masterleases/",))
        with pytest.raises(StoreError, match="stop them first"):
            await restore(file, target, how)
        with pytest.raises(StoreError, match="stop them first"):
            await move(target, url_in(tmp_path, "moved.db"), how)
        await running.close()

    asyncio.run(main())


def test_snapshot_of_a_store_in_use_contains_all_acknowledged_writes(tmp_path: Path) -> None:
    async def main() -> None:
        store = await opened(url_in(tmp_path))
        over, last = asyncio.Event(), 0

        async def write_on() -> None:
            nonlocal last
            while not over.is_set():
                last = (await store.write("/registry/n", str(last).encode())).revision
                store.compact(max(1, store.revision - 20))

        writer = asyncio.ensure_future(write_on())
        for number in range(5):
            acknowledged = last
            file, forked = tmp_path / f"saved{number}", tmp_path / f"forked{number}.db"
            assert await save(url_in(tmp_path), str(file)) >= acknowledged
            acknowledged = last
            await asyncio.to_thread(fork_sqlite, str(tmp_path / "store.db"), str(forked))
            fork = await opened(f"sqlite:{forked}")
            assert fork.revision >= acknowledged
            await fork.write("/registry/n", b"another")
            await fork.close()
        over.set()
        await writer
        assert values(store)["/registry/n"].isdigit()
        await store.close()

    asyncio.run(main())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    asyncio.run(fill(url_in(folder)))
    asyncio.run(save(url_in(folder), str(folder / "saved")))
    return folder / "saved"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_truncated_or_modified_snapshot_is_rejected_or_unchanged(
    whole: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """SQLite's pages have room that means nothing; whatever means something is covered by the seal."""
    content, expected = whole.read_bytes(), read_snapshot(str(whole))
    if data.draw(st.booleans(), "cut"):
        damaged = content[: data.draw(st.integers(0, len(content) - 1), "size")]
    else:
        at = data.draw(st.integers(0, len(content) - 1), "at")
        damaged = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255), "bits")]) + content[at + 1 :]
    path = tmp_path / "damaged"
    path.write_bytes(damaged)
    try:
        found = read_snapshot(str(path))
    except StoreError:
        return
    assert len(damaged) == len(content)
    assert found == expected


def test_store_file_and_opened_snapshot_are_not_snapshots(whole: Path, tmp_path: Path) -> None:
    copied = str(shutil.copy(whole, tmp_path))
    read_snapshot(copied)
    asyncio.run(opened_once(copied))
    with pytest.raises(StoreError, match="not a snapshot"):
        read_snapshot(copied)
    with pytest.raises(StoreError, match="does not exist"):
        read_snapshot(str(tmp_path / "nothing"))


async def opened_once(path: str) -> list[Record]:
    store = SqliteStore(path)
    await store.start()
    found = store.range("").records
    await store.close()
    return found


def test_the_program_saves_restores_forks_and_migrates(
    tmp_path: Path, etcd_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved, url = tmp_path / "data", tmp_path / "saved", etcd_url()
    data.mkdir()
    (data / "pki").mkdir()
    (data / "pki" / "ca.crt").write_text("a certificate")
    written = asyncio.run(fill(url_in(data)))
    assert run_program(["snapshot", "save", str(saved), "--data-dir", str(data)]) == 0
    assert run_program(["snapshot", "restore", str(saved), "--data-dir", str(tmp_path / "again")]) == 0
    assert run_program(["snapshot", "restore", str(saved), "--data-dir", str(tmp_path / "again")]) == 1
    assert "would be replaced" in capsys.readouterr().err
    assert run_program(["snapshot", "fork", str(data), str(tmp_path / "fork")]) == 0
    assert (tmp_path / "fork" / "pki" / "ca.crt").read_text() == "a certificate"
    assert run_program(["snapshot", "fork", str(data), str(tmp_path / "fork")]) == 1
    assert run_program(["migrate", "--from", url_in(data), "--to", url]) == 0
    for target in (url_in(tmp_path / "again"), url_in(tmp_path / "fork"), url):
        store = open_store(target)

        async def look(store: Store = store) -> dict[str, bytes]:
            await store.start()
            found = values(store)
            await store.close()
            return found

        assert asyncio.run(look()) == written
