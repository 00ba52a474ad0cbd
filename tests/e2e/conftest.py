# SPDX-License-Identifier: Apache-2.0
"""Running control plane shared by the tests of a worker, and separate planes for tests that stop or break one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import Plane
from tests.skips import skip_without_kubectl

MakePlane = Callable[..., Plane]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Durable, as people run it; shared, so a test keeps to its own namespace."""
    shared = Plane(tmp_path_factory.mktemp("plane"))
    shared.start()
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def server_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """API server without controllers, for tests that need exclusive writes."""
    alone = Plane(tmp_path_factory.mktemp("server"), command="apiserver")
    alone.start()
    yield alone
    alone.close()


@pytest.fixture
def make_plane(tmp_path: Path) -> Iterator[MakePlane]:
    """Planes of the test's own: not started, but closed at the end."""
    with ExitStack() as cleanup:

        def make(*flags: str, command: str = "up") -> Plane:
            one = Plane(tmp_path / f"plane-{next(_numbers)}", *flags, command=command)
            cleanup.callback(one.close)
            return one

        yield make


@pytest.fixture
def namespace(plane: Plane) -> str:
    """A new namespace that pods can be created in: its default account is there even where no controller runs."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    return make_namespace(plane, name)


def make_namespace(plane: Plane, name: str) -> str:
    plane.create("/api/v1/namespaces", {"metadata": {"name": name}})
    account = plane.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    assert account.status in (201, 409), account.body
    return name


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl-home")


@pytest.fixture
def kubectl(plane: Plane, namespace: str, kubectl_home: Path) -> Kubectl:
    """kubectl in the test's namespace."""
    skip_without_kubectl()
    return Kubectl(plane.kubeconfig, namespace, kubectl_home)


@pytest.fixture(autouse=True)
def no_errors_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a client does, the shared server has no reason to complain."""
    if "plane" not in request.fixturenames:
        yield
        return
    shared: Plane = request.getfixturevalue("plane")
    before = len(shared.errors())
    yield
    assert shared.errors()[before:] == ""
