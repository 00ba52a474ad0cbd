# SPDX-License-Identifier: Apache-2.0
"""A replication controller does what a replica set does, under its own name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod, ReplicationController
from kubeloop.controllers import replicaset
from kubeloop.controllers.replicationcontroller import wire
from kubeloop.testing import Cluster, pod, replica_set
from kubeloop.testing.faults import unavailable_error
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.replicas import (
    NS,
    active_pods_of,
    as_account,
    counts,
    make_ready,
    pods_of,
    read,
    scale,
    set_status,
)


def controller(replicas: int, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "a", "namespace": NS},
        "spec": {"replicas": replicas, "selector": {"app": "a"}, "template": template, **spec},
    }


def started(cluster: Cluster, replicas: int = 3, **spec: Any) -> ReplicationController:
    cluster.start(wire)
    made: ReplicationController = cluster.add(controller(replicas, **spec))
    cluster.settle()
    return made


def test_missing_pods_are_created_and_surplus_pods_deleted(cluster: Cluster) -> None:
    rc = started(cluster, 3)
    (reference,) = pods_of(cluster, rc)[0].metadata.owner_references
    assert (reference.api_version, reference.kind) == ("v1", "ReplicationController")
    assert counts(read(cluster, rc)) == (3, 3, 0, 0)
    scale(cluster, rc, 1)
    assert len(active_pods_of(cluster, rc)) == 1
    said = read(cluster, rc)
    assert counts(said) == (1, 1, 0, 0)
    assert said.status.observed_generation == 2
    assert {one.source.component for one in cluster.events()} == {"replication-controller"}
    assert {one.reason for one in cluster.events()} == {"SuccessfulCreate", "SuccessfulDelete"}


def test_failed_pods_are_replaced_and_orphans_adopted(cluster: Cluster) -> None:
    cluster.add(pod("lonely", labels={"app": "a"}))
    rc = started(cluster, 2)
    assert "lonely" in {one.metadata.name for one in pods_of(cluster, rc)}
    set_status(cluster, cluster.client.get(Pod, "lonely", NS), phase="Failed")
    cluster.settle()
    assert len(active_pods_of(cluster, rc)) == 2


def test_availability_honors_min_ready_seconds(cluster: Cluster) -> None:
    rc = started(cluster, 1, minReadySeconds=60)
    make_ready(cluster, *pods_of(cluster, rc))
    cluster.advance(59)
    assert counts(read(cluster, rc)) == (1, 1, 1, 0)
    cluster.advance(2)
    assert counts(read(cluster, rc)) == (1, 1, 1, 1)


def test_failure_sets_a_condition(cluster: Cluster) -> None:
    cluster.faults.fail("create", "pods", unavailable_error, times=None)
    rc = started(cluster, 1)
    (condition,) = read(cluster, rc).status.conditions
    assert (condition.type, condition.reason) == ("ReplicaFailure", "FailedCreate")
    cluster.faults.clear()
    cluster.advance(1)
    assert read(cluster, rc).status.conditions == ()


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    cluster.start(wire(as_account(cluster, "replication-controller")))
    rc = cluster.add(controller(2))
    cluster.advance(1)
    assert counts(read(cluster, rc)) == (2, 2, 0, 0)


def test_replica_set_with_the_same_name_and_selector_is_independent(cluster: Cluster) -> None:
    rc = started(cluster, 2)
    cluster.start(replicaset.wire)
    rs = cluster.add(replica_set("a", replicas=3))
    cluster.advance(60)
    assert (len(pods_of(cluster, rc)), len(pods_of(cluster, rs))) == (2, 3)


def end_pod(cluster: Cluster, pod: Pod, how: str) -> None:
    if how == "fail":
        set_status(cluster, pod, phase="Failed")
    else:
        cluster.client.delete(Pod, pod.metadata.name, NS)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(steps("scale", "fail", "delete", "stray", "wait", *NETWORK, *LOSSES), st.integers(0, 2**16))
@example(taken=[("scale", 0), ("fail", 0), ("drop watches", 0), ("delete", 0)], seed=0)
@example(taken=[("scale", 0), ("fail", 0), ("drop watches", 0), ("fail", 0)], seed=0)
def test_replication_controller_converges_under_faults(taken: list[Step], seed: int) -> None:
    """Tests of ReplicationControllers; the controller is shared with ReplicaSets, whose tests cover more."""
    with Cluster(seed=seed, shuffle=True) as cluster:
        process = ControllerProcess(cluster, wire)
        rc = cluster.add(controller(2))
        wanted = 2
        for number, (name, size) in enumerate(taken):
            pods = active_pods_of(cluster, rc)
            if name == "scale":
                wanted = size
                cluster.client.patch(ReplicationController, "a", {"spec": {"replicas": size}}, NS)
            elif name == "stray":
                cluster.add(pod(f"stray-{number}", labels={"app": "a"}))
            elif name == "wait":
                cluster.advance(size)
            elif name not in ("fail", "delete"):
                process.disturb(name, size)
            elif pods:
                with suppress(NotFound):  # the controller may delete the pod first
                    end_pod(cluster, pods[size % len(pods)], name)
        cluster.faults.clear()
        cluster.advance(minutes=20)
        assert len(active_pods_of(cluster, rc)) == wanted
        said = read(cluster, rc)
        assert (counts(said), said.status.observed_generation) == ((wanted, wanted, 0, 0), said.metadata.generation)
