"""Time in which nothing happens costs next to nothing: nobody wakes up to see that there is nothing to do."""

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
    """How often time has jumped to something that was to be done."""
    seen = 0
    jump = VirtualLoop.nothing_to_do

    def counting(loop: VirtualLoop, timeout: float | None) -> None:
        nonlocal seen
        seen += 1
        jump(loop, timeout)

    monkeypatch.setattr(VirtualLoop, "nothing_to_do", counting)
    return lambda: seen


def test_idle_day_is_spent_on_little_but_forgetting_history(cluster: Cluster, moments: Moments) -> None:
    cluster.start(cronjob.wire)
    cluster.start(replicaset.wire)
    before = moments()
    cluster.advance(days=1)
    compactions, sweeps_and_resyncs = 24 * 12, 24 * 2
    assert moments() - before <= compactions + sweeps_and_resyncs


def test_watch_that_was_quiet_for_days_still_tells_of_changes_and_outlives_its_loss(cluster: Cluster) -> None:
    cluster.start(replicaset.wire)
    cluster.advance(days=3)
    cluster.add(replica_set("early", replicas=1))
    cluster.settle()
    assert cluster.faults.drop_watches("replicasets") == 1  # its version is long forgotten
    cluster.add(replica_set("late", replicas=1))
    cluster.advance(seconds=2)
    owners = {pod.metadata.owner_references[0].name for pod in cluster.client.list(Pod, "default").items}
    assert owners == {"early", "late"}
