"""One fixture that is every store backend in turn, so that one suite holds them all to one contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kubeloop.store.engine import LoggedStore
from kubeloop.store.memory import MemoryStore
from kubeloop.store.sqlite import SqliteStore

MakeStore = Callable[..., LoggedStore]


def store_maker(backend: str, folder: Path) -> MakeStore:
    if backend == "memory":
        return MemoryStore
    return lambda **options: SqliteStore(str(folder / "store.db"), **options)


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    return store_maker(request.param, tmp_path)
