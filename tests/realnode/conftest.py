# SPDX-License-Identifier: Apache-2.0
"""One real node for all tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realnode.containerd import Containerd, run_containerd
from tests.realnode.images import build_busybox, build_pause
from tests.realnode.network_lab import NetworkLab, run_lab
from tests.realnode.node import RealNode
from tests.skips import NEEDS_LINUX, NEEDS_ROOT


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Archives of the images of the tests."""
    if sys.platform != "linux":
        pytest.skip(NEEDS_LINUX)
    if os.geteuid() != 0:
        pytest.skip(NEEDS_ROOT)
    images = tmp_path_factory.mktemp("images")
    return [build_busybox(images), build_pause(images)]


@pytest.fixture(scope="session")
def containerd(tmp_path_factory: pytest.TempPathFactory, archives: list[Path]) -> Iterator[Containerd]:
    """A containerd with the images of the tests."""
    with run_containerd(tmp_path_factory.mktemp("cri") / "c", archives) as found:
        yield found


@pytest.fixture
def own_containerd(tmp_path_factory: pytest.TempPathFactory, archives: list[Path]) -> Iterator[Containerd]:
    """A containerd for one test alone."""
    with run_containerd(tmp_path_factory.mktemp("own") / "o", archives) as found:
        yield found


@pytest.fixture(scope="session")
def session_node(containerd: Containerd) -> Iterator[RealNode]:
    folder: Path = containerd.folder / "node"  # with the runtime's: one folder to clean up
    folder.mkdir()
    node = RealNode(containerd, folder)
    with node.plane():
        node.start_kubelet()
        try:
            node.eventually(node.is_ready)
            yield node
            node.remove_pods()
        finally:
            node.stop_kubelet()


@pytest.fixture
def node(session_node: RealNode) -> Iterator[RealNode]:
    """The node, without pods of other tests."""
    yield session_node
    session_node.remove_pods()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkLab]:
    """Three nodes as network namespaces, and a control plane."""
    if sys.platform != "linux":
        pytest.skip(NEEDS_LINUX)
    if os.geteuid() != 0:
        pytest.skip(NEEDS_ROOT)
    with run_lab(tmp_path_factory.mktemp("network"), 3) as found:
        yield found
