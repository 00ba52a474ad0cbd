# SPDX-License-Identifier: Apache-2.0
"""pytest plugin with clusters as fixtures. Loaded by pytest where kubeloop is installed.

Imports the cluster only when a test requests one, because every test run loads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubeloop.testing.cluster import Cluster


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Return a factory of clusters with the arguments of `Cluster`; they are closed at the end of the test."""
    from kubeloop.testing.cluster import Cluster

    with ExitStack() as closing:

        def make(**options: Any) -> Cluster:
            return closing.enter_context(Cluster(**options))

        yield make


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return a cluster for the test, in virtual time."""
    return make_cluster()


@pytest.fixture(scope="session")
def cluster_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the keys shared by all clusters of a run: creating keys is slower than a cluster."""
    return tmp_path_factory.mktemp("kubeloop-keys")


@pytest.fixture
def live_cluster(
    cluster: Cluster, cluster_keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """Return the cluster with a port, in real time; KUBECONFIG points to it during the test."""
    with cluster.serve(cluster_keys) as address:
        monkeypatch.setenv("KUBECONFIG", str(address.kubeconfig))
        yield cluster
