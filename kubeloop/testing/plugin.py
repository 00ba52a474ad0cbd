# SPDX-License-Identifier: Apache-2.0
"""pytest plugin with clusters as fixtures. Loaded by pytest where kubeloop is installed.

Imports the cluster only when a test requests one, because every test run loads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubeloop.testing.cluster import Cluster

_RANDOM = "random"

SEED = pytest.StashKey[int]()  # of the run
CLUSTERS = pytest.StashKey[list["Cluster"]]()  # of one test
FAILED = pytest.StashKey[bool]()  # set for a test that has failed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the seed of clusters."""
    parser.getgroup("kubeloop").addoption(
        "--kubeloop-seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of clusters that a test gives none, or `random` for a new one in each run (default: 0)",
    )


def _seed(text: str) -> int:
    if text != _RANDOM:
        return int(text)
    from kubeloop.clock import SystemClock

    return SystemClock().random().randrange(2**31)


def pytest_configure(config: pytest.Config) -> None:
    """Store the seed."""
    config.stash[SEED] = config.getoption("kubeloop_seed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section about the test's clusters to the report of a failure."""
    report = yield
    if report.failed and report.when != "teardown":
        item.stash[FAILED] = True
        for cluster in item.stash.get(CLUSTERS, []):
            report.sections.append(("kubeloop", _text_of(cluster, item.config.stash[SEED])))
    return report


def _text_of(cluster: Cluster, seed: int) -> str:
    rerun = f"rerun with --kubeloop-seed={seed}" if cluster.seed == seed else "given by the test"
    try:
        about = cluster.report()
    except Exception as error:  # the report must not hide the failure
        about = f"no report: {type(error).__name__}: {error}"
    return f"Seed {cluster.seed}: {rerun}\n{about}"


@pytest.fixture
def make_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Return a factory of clusters with the arguments of `Cluster`; they are closed at the end of the test."""
    from kubeloop.testing.cluster import Cluster

    stash, seed = request.node.stash, request.config.stash[SEED]
    clusters: list[Cluster] = stash.setdefault(CLUSTERS, [])

    def close(cluster: Cluster) -> None:
        cluster.close(check=not stash.get(FAILED, False), strict=True)

    with ExitStack() as closing:

        def make(**options: Any) -> Cluster:
            cluster = Cluster(**{"seed": seed, **options})
            closing.callback(close, cluster)
            clusters.append(cluster)
            return cluster

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
