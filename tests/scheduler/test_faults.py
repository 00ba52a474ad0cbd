# SPDX-License-Identifier: Apache-2.0
"""Whatever a server or network does, in the end every pod has a node, and no node has too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import asking, join


@pytest.mark.parametrize("seed", range(4))
def test_every_pod_is_scheduled_and_no_node_is_overcommitted(make_cluster: Callable[..., Cluster], seed: int) -> None:
    cluster = make_cluster(seed=seed, shuffle=True)
    loop = cluster.start(wire)
    join(cluster, *(node(f"n{number}", cpu="4") for number in range(3)))
    cluster.faults.fail("write", "pods", times=15, chance=0.4)
    cluster.faults.lose_answers("create", "pods", times=5, chance=0.3)
    for number in range(12):
        cluster.add(pod(f"web-{number}", **asking("1")))
    cluster.settle()
    cluster.faults.drop_watches("pods")
    cluster.advance(seconds=3)
    cluster.faults.expire_watches("pods")
    cluster.stop(loop)
    cluster.start(wire)
    cluster.advance(minutes=10)
    placed = Counter(one.spec.node_name for one in cluster.client.list("pods", "default").items)
    assert placed == {"n0": 4, "n1": 4, "n2": 4}


def test_same_seed_gives_the_same_placement(make_cluster: Callable[..., Cluster]) -> None:
    def places() -> list[str]:
        cluster = make_cluster(seed=7)
        cluster.start(wire)
        join(cluster, *(node(f"n{number}") for number in range(5)))
        for number in range(8):
            cluster.add(pod(f"web-{number}"))
        cluster.settle()
        found = cluster.client.list("pods", "default").items
        return [f"{one.metadata.name} {one.spec.node_name}" for one in found]

    assert places() == places()
