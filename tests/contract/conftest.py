"""Fixtures that are every store, or every transport, in turn: one suite holds them all to one contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kubeloop.cli.pki import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.store.engine import LoggedStore
from kubeloop.store.memory import MemoryStore
from kubeloop.store.sqlite import SqliteStore
from tests.contract.planes import PLAYERS, Scenario

MakeStore = Callable[..., LoggedStore]


def store_maker(backend: str, folder: Path) -> MakeStore:
    if backend == "memory":
        return MemoryStore
    return lambda **options: SqliteStore(str(folder / "store.db"), **options)


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    return store_maker(request.param, tmp_path)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(tmp_path_factory.mktemp("pki"), ["127.0.0.1"], SystemClock().now())


@pytest.fixture(params=PLAYERS)
def play(request: pytest.FixtureRequest, pki: Pki, tmp_path: Path) -> Callable[[Scenario], None]:
    return lambda scenario: PLAYERS[request.param](scenario, pki, tmp_path)
