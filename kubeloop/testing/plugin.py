"""The pytest plugin: clusters as fixtures. Loaded by pytest itself where kubeloop is installed.

Imports what a cluster needs only when a test asks for one, because every test run loads this module.
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
    """Makes clusters with the arguments of `Cluster`, as many as a test likes; they are closed at its end."""
    from kubeloop.testing.cluster import Cluster

    with ExitStack() as closing:

        def make(**options: Any) -> Cluster:
            return closing.enter_context(Cluster(**options))

        yield make


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster of the test's own, in virtual time."""
    return make_cluster()


@pytest.fixture(scope="session")
def cluster_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the keys that the clusters of a run share: making them takes longer than a cluster."""
    return tmp_path_factory.mktemp("kubeloop-keys")


@pytest.fixture
def live_cluster(
    cluster: Cluster, cluster_keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """The same cluster with a port, in real time; KUBECONFIG leads to it for the length of the test."""
    with cluster.serve(cluster_keys) as address:
        monkeypatch.setenv("KUBECONFIG", str(address.kubeconfig))
        yield cluster
