# SPDX-License-Identifier: Apache-2.0
"""Clusters with one family of addresses, with two, or with ranges of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from kubeloop.apiserver.registry.allocation import ServiceRanges
from tests.unit.apiserver.registry.allocation.cluster import Cluster


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    with asyncio.Runner() as runner:

        def make(*networks: str, node_ports: range = range(30000, 32768)) -> Cluster:
            return Cluster(runner, ServiceRanges(networks or ("10.0.0.0/24",), node_ports))

        yield make


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster()


@pytest.fixture
def dual(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster("10.0.0.0/24", "fd00:10::/108")
