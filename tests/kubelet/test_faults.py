# SPDX-License-Identifier: Apache-2.0
"""Tests of simulated nodes under faults: everything converges."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.testing import Cluster, builders
from kubeloop.testing.faults import conflict_of, connection_lost_error
from tests.kubelet.pods import get, is_gone, put, runs


def test_nodes_register_after_the_server_becomes_available(cluster: Cluster) -> None:
    cluster.faults.fail("create", "nodes", times=3)
    cluster.faults.fail("create", "leases", times=3, error=connection_lost_error)
    cluster.add_nodes(2)
    cluster.advance(30)
    assert len(cluster.client.list("nodes").items) == 2
    assert len(cluster.client.list("leases", "kube-node-lease").items) == 2


@pytest.mark.parametrize("error", [conflict_of, connection_lost_error])
def test_status_is_written_eventually(cluster: Cluster, error: object) -> None:
    cluster.add_nodes(1)
    cluster.faults.fail("patch", "pods", times=4, error=error)  # type: ignore[arg-type]
    put(cluster)
    cluster.advance(30)
    pod = get(cluster)
    assert pod.status.phase == "Running"
    assert pod.status.container_statuses[0].restart_count == 0


def test_deleted_pod_is_removed_although_the_final_delete_fails(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster)
    cluster.faults.fail("delete", "pods", times=3)
    cluster.client.delete(Pod, "pod", "default")
    cluster.advance(60)
    assert is_gone(cluster)


@pytest.mark.parametrize("seed", range(3))
def test_random_faults_do_no_lasting_harm(make_cluster: object, seed: int) -> None:
    cluster: Cluster = make_cluster(seed=seed, shuffle=True)  # type: ignore[operator]
    cluster.add_nodes(3)
    cluster.faults.fail("write", times=None, chance=0.2)
    cluster.faults.lose_answers("write", times=None, chance=0.1)
    for number in range(12):
        done = number % 3 == 0
        fields = {"restart_policy": "Never", "containers": (runs("sh", "-c", "sleep 3; exit 0"),)} if done else {}
        cluster.client.create(builders.pod(f"p{number}", node=f"n{number % 3 + 1}", **fields))
        cluster.advance(1)
        if number % 4 == 3:
            cluster.client.delete(Pod, f"p{number - 1}", "default")
    cluster.advance(minutes=3)
    found = {one.metadata.name: one.status.phase for one in cluster.client.list("pods", "default").items}
    kept = [number for number in range(12) if number % 4 != 2]
    assert found == {f"p{number}": "Succeeded" if number % 3 == 0 else "Running" for number in kept}
