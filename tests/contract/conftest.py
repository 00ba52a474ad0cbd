# SPDX-License-Identifier: Apache-2.0
"""Fixtures that are every store, or every transport, in turn: one suite holds them all to one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.store.etcd.store import EtcdStore
from tests.contract.planes import PLAYERS, Scenario
from tests.contract.stores import EtcdSupply, MakeStore, local_store_maker


@pytest.fixture(scope="session")
def etcd_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdSupply]:
    supply = EtcdSupply(tmp_path_factory.mktemp("etcd"))
    yield supply
    supply.close()


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeStore]:
    if request.param != "etcd":
        yield local_store_maker(request.param, tmp_path)
        return
    supply: EtcdSupply = request.getfixturevalue("etcd_servers")
    with supply.fresh() as cluster:
        yield lambda **options: EtcdStore(cluster.config(), **options)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(tmp_path_factory.mktemp("pki"), ["127.0.0.1"], SystemClock().now())


@pytest.fixture(params=PLAYERS)
def play(request: pytest.FixtureRequest, pki: Pki, tmp_path: Path) -> Callable[[Scenario], None]:
    return lambda scenario: PLAYERS[request.param](scenario, pki, tmp_path)
