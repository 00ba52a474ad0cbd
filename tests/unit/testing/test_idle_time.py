# SPDX-License-Identifier: Apache-2.0
"""Tests of idle time: no periodic wakeups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers import cronjob, replicaset
from kubeloop.sim.loop import VirtualLoop
from kubeloop.testing import Cluster, replica_set

Moments = Callable[[], int]


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    """Return how often virtual time has jumped to a timer."""
    seen = 0
    jump = VirtualLoop.on_idle

    def counting(loop: VirtualLoop, timeout: float | None) -> None:
        nonlocal seen
        seen += 1
        jump(loop, timeout)

    monkeypatch.setattr(VirtualLoop, "on_idle", counting)
    return lambda: seen


def test_idle_day_costs_little_but_compaction(cluster: Cluster, moments: Moments) -> None:
    cluster.start(cronjob.wire)
    cluster.start(replicaset.wire)
    before = moments()
    cluster.advance(days=1)
    compactions, sweeps_and_resyncs = 24 * 12, 24 * 2
    assert moments() - before <= compactions + sweeps_and_resyncs


def test_watch_idle_for_days_delivers_changes_and_survives_its_loss(cluster: Cluster) -> None:
    cluster.start(replicaset.wire)
    cluster.advance(days=3)
    cluster.add(replica_set("early", replicas=1))
    cluster.settle()
    assert cluster.faults.drop_watches("replicasets") == 1  # its version is long forgotten
    cluster.add(replica_set("late", replicas=1))
    cluster.advance(seconds=2)
    owners = {pod.metadata.owner_references[0].name for pod in cluster.client.list(Pod, "default").items}
    assert owners == {"early", "late"}
