# SPDX-License-Identifier: Apache-2.0
"""Saves, restores and moves the content of stores.

snapshot ◀── save ── sqlite (also of a running server), etcd
snapshot ── restore ──▶ sqlite, etcd

A client must never see a revision twice with different meanings. A restored snapshot is a step back in time, so that
the restored store continues well above any revision that the old one can have reached since, and its history begins
there: clients that watch have to list again. Moving a store that is no longer written to needs none of that.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from kubeloop.store import open_store
from kubeloop.store.backup.snapshot import read_snapshot, write_snapshot
from kubeloop.store.errors import StoreCorrupt, StoreError
from kubeloop.store.log import LoadedLog
from kubeloop.store.sqlite import file
from kubeloop.store.sqlite.filelock import FileLock

_SQLITE: Final = "sqlite:"
_ETCD: Final = "etcd:"


class RestoreOptions(msgspec.Struct, frozen=True):
    """Options of a restore."""

    revision_offset: int = (
        0  # how far above the snapshot's revision to go on; 0 for a move, which keeps the history too
    )
    replace: bool = False  # what is there already
    excluded_prefixes: tuple[str, ...] = ()  # prefixes of keys that only concern running servers
    ttl_prefixes: tuple[
        tuple[str, float], ...
    ] = ()  # prefixes of keys that end by themselves, and after how many seconds


async def save(url: str, path: str) -> int:
    """Write a snapshot of a store; returns its revision."""
    if url.startswith(_SQLITE):
        return await asyncio.to_thread(_save_sqlite, url.removeprefix(_SQLITE), path)
    store = open_store(url)
    await store.start()
    try:
        await store.wait_current()
        return await store.snapshot(path)
    finally:
        await store.close()


async def restore(path: str, url: str, how: RestoreOptions) -> int:
    """Fill a store from a snapshot; returns the revision that it continues from."""
    content = _without_prefixes(await asyncio.to_thread(read_snapshot, path), how.excluded_prefixes)
    if url.startswith(_SQLITE):
        return await asyncio.to_thread(_restore_sqlite, content, url.removeprefix(_SQLITE), how)
    if url.startswith(_ETCD):
        from kubeloop.store.etcd.restore import restore_etcd

        return await restore_etcd(content, url, how)
    raise StoreError(f"cannot restore to {url!r}: use sqlite:PATH or etcd://HOST:PORT")


async def move(source: str, target: str, how: RestoreOptions) -> int:
    """Move one store's content to another, with history if it can hold it. The source must not be written to."""
    with tempfile.TemporaryDirectory(prefix="kubeloop-move-") as folder, _locked(source):
        path = os.path.join(folder, "snapshot.db")
        await save(source, path)
        if any(key.startswith(how.excluded_prefixes) for key in read_snapshot(path).records):
            raise StoreError(f"{source} is in use by API servers, or was seconds ago: stop them first")
        return await restore(path, target, how)


@contextmanager
def _locked(url: str) -> Iterator[None]:
    """Hold the store's lock; raises `StoreInUse` if a server has it open."""
    path = url.removeprefix(_SQLITE)
    if path == url or not os.path.exists(path):
        yield
        return
    lock = FileLock(f"{path}.lock")
    lock.acquire(path)
    try:
        yield
    finally:
        lock.release()


def _save_sqlite(source: str, path: str) -> int:
    if not os.path.exists(source):
        raise StoreError(f"store {source} does not exist")
    try:
        content, _ = file.load(source)
    except (sqlite3.Error, StoreCorrupt) as error:
        raise StoreCorrupt(f"the store {source} is corrupt: {error}") from None
    write_snapshot(path, content)
    return content.revision


def _restore_sqlite(content: LoadedLog, target: str, how: RestoreOptions) -> int:
    lock = FileLock(f"{target}.lock")
    lock.acquire(target)
    try:
        reached = 0
        if os.path.exists(target):
            if not how.replace:
                raise StoreError(f"{target} exists and would be replaced")
            reached = _revision_of(target)
        content = _at_later_revision(content, content.revision + how.revision_offset, reached)
        for name in (f"{target}-wal", f"{target}-shm"):
            with suppress(FileNotFoundError):
                os.remove(name)
        file.create(target, content)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot restore to {target}: {error}") from None
    finally:
        lock.release()
    return content.revision


def _revision_of(target: str) -> int:
    """Return the revision of a store that is to be replaced; 0 if it is damaged, which is allowed."""
    try:
        return file.load(target)[0].revision
    except (sqlite3.Error, StoreError):
        return 0


def _at_later_revision(content: LoadedLog, revision: int, reached: int) -> LoadedLog:
    """Return the same state at a later revision and without history, unless the revision is unchanged."""
    revision = max(revision, reached + 1 if reached else 0)
    if revision == content.revision:
        return content
    return LoadedLog(content.records, [], revision, revision, content.cluster_id)


def _without_prefixes(content: LoadedLog, prefixes: tuple[str, ...]) -> LoadedLog:
    """Return the content without some keys; also without history if they occur in it."""
    records = {key: record for key, record in content.records.items() if not key.startswith(prefixes)}
    if any(event.key.startswith(prefixes) for event in content.events):
        return LoadedLog(records, [], content.revision, content.revision, content.cluster_id)
    return LoadedLog(records, content.events, content.revision, content.compact_revision, content.cluster_id)
