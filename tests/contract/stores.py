# SPDX-License-Identifier: Apache-2.0
"""Store factories of all backends for tests, including failing ones."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from kubeloop.store import StoreError
from kubeloop.store.engine import LoggedStore
from kubeloop.store.etcd.store import EtcdStore
from kubeloop.store.memory import MemoryStore
from kubeloop.store.sqlite.log import SqliteStore
from tests.etcd_processes import EtcdCluster

AnyStore: TypeAlias = LoggedStore | EtcdStore
MakeStore: TypeAlias = Callable[..., AnyStore]


@contextlib.asynccontextmanager
async def started(cluster: EtcdCluster, prefix: str = "/") -> AsyncIterator[EtcdStore]:
    """A server's store, until it is no longer needed."""
    store = EtcdStore(cluster.config(prefix))
    await store.start()
    try:
        yield store
    finally:
        await store.close()


class EtcdSupply:
    """Fresh servers of one member. The next one starts while the one before it is in use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[EtcdCluster] = []
        self._start_next()

    @contextlib.contextmanager
    def fresh(self) -> Iterator[EtcdCluster]:
        cluster = self._made.pop()
        self._start_next()
        with contextlib.ExitStack() as ended:
            ended.push(cluster)
            yield cluster

    def close(self) -> None:
        self._made.pop().__exit__()

    def _start_next(self) -> None:
        self._made.append(EtcdCluster(Path(tempfile.mkdtemp(dir=self._folder))).__enter__())


def local_store_maker(backend: str, folder: Path) -> MakeStore:
    if backend == "memory":
        return MemoryStore
    return lambda **options: SqliteStore(str(folder / "store.db"), **options)


def break_writes(store: AnyStore, monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    """Whatever is written from now on does not become durable."""

    def append(events: object, after: object, appended: Callable[[StoreError], None]) -> None:
        asyncio.get_running_loop().call_soon(appended, StoreError(message))

    async def write(*_: object) -> None:
        await asyncio.sleep(0.01)  # what is written meanwhile is built upon it
        raise StoreError(message)

    if isinstance(store, EtcdStore):
        monkeypatch.setattr(store._transactions, "begin", lambda *_: None)
        monkeypatch.setattr(store._transactions, "write", write)
    else:
        monkeypatch.setattr(store._log, "append", append)
