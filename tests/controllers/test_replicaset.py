# SPDX-License-Identifier: Apache-2.0
"""Tests of ReplicaSets: number of pods, and status."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.apps_v1 import ReplicaSet
from kubeloop.api.generated.core_v1 import Pod, ResourceQuota
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.controllers.replicaset import wire
from kubeloop.testing import Cluster, deployment, namespace, node, pod, replica_set
from kubeloop.testing.faults import unavailable_error
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


def started(cluster: Cluster, replicas: int = 3, **spec: Any) -> ReplicaSet:
    cluster.start(wire)
    made: ReplicaSet = cluster.add(replica_set("a", replicas=replicas, **spec))
    cluster.settle()
    return made


# Making


def test_missing_pods_are_created_from_the_template(cluster: Cluster) -> None:
    rs = started(cluster, 3)
    pods = pods_of(cluster, rs)
    assert len(pods) == 3
    for one in pods:
        assert one.metadata.name.startswith("a-")
        assert one.metadata.labels == {"app": "a"}
        (reference,) = one.metadata.owner_references
        assert (reference.api_version, reference.kind, reference.name) == ("apps/v1", "ReplicaSet", "a")
        assert (reference.controller, reference.block_owner_deletion) == (True, True)
    messages = {one.message for one in cluster.events(reason="SuccessfulCreate")}
    assert messages == {f"Created pod: {one.metadata.name}" for one in pods}
    assert {one.source.component for one in cluster.events(reason="SuccessfulCreate")} == {"replicaset-controller"}


def test_status_has_observed_counts(cluster: Cluster) -> None:
    rs = started(cluster, 2)
    said = read(cluster, rs)
    assert counts(said) == (2, 2, 0, 0)
    assert said.status.terminating_replicas == 0
    assert said.status.observed_generation == said.metadata.generation
    make_ready(cluster, pods_of(cluster, rs)[0])
    cluster.settle()
    assert counts(read(cluster, rs)) == (2, 2, 1, 1)


def test_replica_set_of_zero_sets_observed_generation(cluster: Cluster) -> None:
    rs = started(cluster, 0)
    said = read(cluster, rs)
    assert (said.status.replicas, said.status.observed_generation) == (0, 1)


@pytest.mark.parametrize("replicas", [499, 500, 501, 1203])
def test_many_pods_are_created_in_batches_without_surplus(cluster: Cluster, replicas: int) -> None:
    rs = started(cluster, replicas)
    cluster.advance(1)
    assert len(pods_of(cluster, rs)) == replicas
    assert counts(read(cluster, rs))[0] == replicas
    assert len(pods_of(cluster, rs)) == len({one.metadata.uid for one in pods_of(cluster, rs)})


def test_terminated_or_terminating_pod_is_replaced(cluster: Cluster) -> None:
    rs = started(cluster, 3)
    failed, done, leaving = pods_of(cluster, rs)
    cluster.client.patch(Pod, leaving.metadata.name, {"metadata": {"finalizers": ["test/kept"]}}, NS)
    set_status(cluster, failed, phase="Failed")
    set_status(cluster, done, phase="Succeeded")
    cluster.client.delete(Pod, leaving.metadata.name, NS)
    cluster.settle()
    assert len(active_pods_of(cluster, rs)) == 3
    assert len(pods_of(cluster, rs)) == 6
    said = read(cluster, rs)
    assert (said.status.replicas, said.status.terminating_replicas) == (3, 1)


def test_deleted_pod_is_replaced(cluster: Cluster) -> None:
    rs = started(cluster, 2)
    first = pods_of(cluster, rs)[0]
    cluster.client.delete(Pod, first.metadata.name, NS, grace_seconds=0)
    cluster.settle()
    assert len(active_pods_of(cluster, rs)) == 2
    assert first.metadata.uid not in {one.metadata.uid for one in pods_of(cluster, rs)}


def test_replica_set_being_deleted_creates_no_pods_but_updates_status(cluster: Cluster) -> None:
    rs = started(cluster, 2)
    cluster.client.patch(ReplicaSet, "a", {"metadata": {"finalizers": ["test/kept"]}}, NS)
    cluster.client.delete(ReplicaSet, "a", NS)
    cluster.client.delete(Pod, pods_of(cluster, rs)[0].metadata.name, NS, grace_seconds=0)
    cluster.settle()
    assert len(pods_of(cluster, rs)) == 1
    assert read(cluster, rs).status.replicas == 1


def test_terminating_namespace_is_ignored(cluster: Cluster) -> None:
    cluster.add(namespace("going"))
    cluster.settle()
    cluster.add(replica_set("a", "going", replicas=0))
    cluster.start(wire)
    cluster.client.delete("namespaces", "going")
    cluster.client.patch(ReplicaSet, "a", {"spec": {"replicas": 3}}, "going")
    cluster.advance(minutes=1)
    assert cluster.events("going") == []
    said = cluster.client.get(ReplicaSet, "a", "going").status
    assert (said.replicas, said.conditions) == (0, ())


# Deleting


def test_surplus_pods_are_deleted(cluster: Cluster) -> None:
    rs = started(cluster, 5)
    before = {one.metadata.name for one in pods_of(cluster, rs)}
    scale(cluster, rs, 2)
    left = {one.metadata.name for one in active_pods_of(cluster, rs)}
    assert len(left) == 2
    assert left < before
    told = {one.message for one in cluster.events(reason="SuccessfulDelete")}
    assert told == {f"Deleted pod: {name}" for name in before - left}
    assert read(cluster, rs).status.observed_generation == 2


def test_unready_pods_are_deleted_first(cluster: Cluster) -> None:
    rs = started(cluster, 3)
    one, two, three = pods_of(cluster, rs)
    make_ready(cluster, one, three)
    scale(cluster, rs, 2)
    assert {left.metadata.name for left in active_pods_of(cluster, rs)} == {one.metadata.name, three.metadata.name}
    assert two.metadata.name not in {left.metadata.name for left in active_pods_of(cluster, rs)}


def test_pod_with_lower_deletion_cost_is_deleted_first(cluster: Cluster) -> None:
    rs = started(cluster, 3)
    pods = pods_of(cluster, rs)
    make_ready(cluster, *pods)
    for one, cost in zip(pods, ("10", "-10", "0"), strict=True):
        annotation = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}}
        cluster.client.patch(Pod, one.metadata.name, annotation, NS)
    scale(cluster, rs, 2)
    assert pods[1].metadata.uid not in {one.metadata.uid for one in active_pods_of(cluster, rs)}
    scale(cluster, rs, 1)
    assert [one.metadata.uid for one in active_pods_of(cluster, rs)] == [pods[0].metadata.uid]


def test_pods_of_one_deployment_stay_spread_over_nodes(cluster: Cluster) -> None:
    """The node that has most pods of all of the owner's sets gives one up, though each set has one on each."""
    owner = cluster.add(deployment("d", replicas=2))
    cluster.add(node("n1"), node("n2"))
    cluster.start(wire)
    old = cluster.add(replica_set("old", labels={"app": "d", "v": "old"}, replicas=1, owner=owner))
    new = cluster.add(replica_set("new", labels={"app": "d", "v": "new"}, replicas=2, owner=owner))
    cluster.settle()
    (elder,), (crowded, lonely) = pods_of(cluster, old), pods_of(cluster, new)
    for one, where in ((elder, "n1"), (crowded, "n1"), (lonely, "n2")):
        cluster.client.bind(one.metadata.name, NS, where)
    make_ready(cluster, elder, crowded, lonely)
    cluster.settle()
    scale(cluster, new, 1)
    assert [one.metadata.name for one in active_pods_of(cluster, new)] == [lonely.metadata.name]


# Ownership of pods


def test_matching_orphan_is_adopted_and_counts(cluster: Cluster) -> None:
    cluster.add(pod("lonely", labels={"app": "a"}), pod("stranger", labels={"app": "b"}))
    rs = started(cluster, 2)
    names = {one.metadata.name for one in pods_of(cluster, rs)}
    assert len(names) == 2
    assert "lonely" in names


def test_many_orphans_are_adopted(cluster: Cluster) -> None:
    """Delay each call by a second; together they may take two."""
    cluster.add(*(pod(f"lonely-{number}", labels={"app": "a"}) for number in range(100)))
    cluster.faults.delay(1, "patch", "pods", times=None)
    rs = started(cluster, 100)
    cluster.advance(2.5)
    assert len(pods_of(cluster, rs)) == 100
    assert cluster.events(reason="SuccessfulCreate") == []


def test_orphan_created_later_is_adopted_and_the_surplus_is_deleted(cluster: Cluster) -> None:
    rs = started(cluster, 2)
    make_ready(cluster, *pods_of(cluster, rs))
    cluster.add(pod("late", labels={"app": "a"}))
    cluster.settle()
    assert len(active_pods_of(cluster, rs)) == 2
    with pytest.raises(NotFound):
        cluster.client.get(Pod, "late", NS)


def test_orphan_that_gets_matching_labels_is_adopted(cluster: Cluster) -> None:
    cluster.add(pod("x", labels={"app": "other"}, phase="Running"))
    rs = started(cluster, 0)
    cluster.client.patch(ReplicaSet, "a", {"spec": {"replicas": 1}}, NS)
    cluster.client.patch(Pod, "x", {"metadata": {"labels": {"app": "a"}}}, NS)
    cluster.settle()
    assert len(active_pods_of(cluster, rs)) == 1


def test_pod_that_no_longer_matches_is_released_and_replaced(cluster: Cluster) -> None:
    rs = started(cluster, 2)
    first = pods_of(cluster, rs)[0]
    cluster.client.patch(Pod, first.metadata.name, {"metadata": {"labels": {"app": "mine"}}}, NS)
    cluster.settle()
    assert cluster.client.get(Pod, first.metadata.name, NS).metadata.owner_references == ()
    assert len(active_pods_of(cluster, rs)) == 2


def test_pods_of_other_owners_are_never_changed(cluster: Cluster) -> None:
    other = cluster.add(replica_set("other", labels={"app": "a"}, replicas=1))
    cluster.add(pod("theirs", labels={"app": "a"}, owner=other))
    rs = started(cluster, 1)
    scale(cluster, rs, 0)
    assert cluster.client.get(Pod, "theirs", NS).metadata.owner_references[0].name == "other"


def test_replica_sets_with_the_same_selector_do_not_conflict(cluster: Cluster) -> None:
    cluster.start(wire)
    one = cluster.add(replica_set("one", labels={"app": "x"}, replicas=2))
    two = cluster.add(replica_set("two", labels={"app": "x"}, replicas=3))
    cluster.advance(hours=1)
    assert len(pods_of(cluster, one)) == 2
    assert len(pods_of(cluster, two)) == 3
    assert len(cluster.client.list(Pod, NS).items) == 5
    assert cluster.events(reason="SuccessfulDelete") == []


def test_only_one_of_two_sets_adopts_an_orphan(cluster: Cluster) -> None:
    cluster.add(pod("x", labels={"app": "x"}))
    one = cluster.add(replica_set("one", labels={"app": "x"}, replicas=1))
    two = cluster.add(replica_set("two", labels={"app": "x"}, replicas=1))
    cluster.start(wire)
    cluster.advance(1)
    assert (len(pods_of(cluster, one)), len(pods_of(cluster, two))) == (1, 1)
    assert len(cluster.client.list(Pod, NS).items) == 2


def test_replica_set_deleted_concurrently_adopts_nothing(cluster: Cluster) -> None:
    """The cache is stale; the server is read."""
    rs = started(cluster, 0)
    cluster.faults.delay(5, "watch", "replicasets", times=None)
    cluster.faults.drop_watches("replicasets")
    cluster.settle()
    cluster.client.patch(ReplicaSet, "a", {"metadata": {"finalizers": ["test/kept"]}}, NS)
    cluster.client.delete(ReplicaSet, "a", NS)
    cluster.add(pod("x", labels={"app": "a"}))
    cluster.settle()
    assert pods_of(cluster, rs) == []
    cluster.advance(30)
    assert pods_of(cluster, rs) == []


# Status


def test_fully_labeled_counts_pods_with_all_labels_of_the_template(cluster: Cluster) -> None:
    cluster.start(wire)
    selector = LabelSelector(match_labels={"app": "a"})
    rs = cluster.add(replica_set("a", labels={"app": "a", "tier": "web"}, replicas=2, selector=selector))
    cluster.settle()
    cluster.client.patch(Pod, pods_of(cluster, rs)[0].metadata.name, {"metadata": {"labels": {"tier": "db"}}}, NS)
    cluster.settle()
    assert counts(read(cluster, rs)) == (2, 1, 0, 0)


def test_pod_is_available_after_min_ready_seconds(cluster: Cluster) -> None:
    rs = started(cluster, 2, min_ready_seconds=30)
    one, two = pods_of(cluster, rs)
    make_ready(cluster, one)
    cluster.advance(10)
    make_ready(cluster, two)
    cluster.advance(19)
    assert counts(read(cluster, rs)) == (2, 2, 2, 0)
    cluster.advance(1.5)
    assert counts(read(cluster, rs)) == (2, 2, 2, 1)
    cluster.advance(10)
    assert counts(read(cluster, rs)) == (2, 2, 2, 2)


def quota(pods: int) -> dict[str, Any]:
    meta = {"name": "q", "namespace": NS}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": str(pods)}}}


def test_rejected_pods_set_the_replica_failure_condition(cluster: Cluster) -> None:
    cluster.add(quota(0))
    full = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    cluster.client.patch(ResourceQuota, "q", {"status": full}, NS, subresource="status")
    rs = started(cluster, 3)
    said = read(cluster, rs)
    (condition,) = said.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
    assert "is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in condition.message
    first = cluster.events(reason="FailedCreate")[0]
    assert first.type == "Warning"
    assert first.message == f"Error creating: {condition.message}"
    cluster.client.delete(ResourceQuota, "q", NS)
    cluster.advance(minutes=20)
    said = read(cluster, rs)
    assert (said.status.conditions, said.status.replicas) == ((), 3)


def test_slow_start_detects_failures_with_one_call(cluster: Cluster) -> None:
    """The first attempt sets the condition, which triggers the second one."""
    fault = cluster.faults.fail("create", "pods", unavailable_error, times=None)
    started(cluster, 100)
    assert fault.hits == 2
    fault.times = 0
    cluster.advance(1)
    assert len(cluster.client.list(Pod, NS).items) == 100


def test_failed_deletion_records_an_event_and_is_retried(cluster: Cluster) -> None:
    rs = started(cluster, 2)
    cluster.faults.fail("delete", "pods", unavailable_error, times=None)
    cluster.client.patch(ReplicaSet, "a", {"spec": {"replicas": 0}}, NS)
    cluster.settle()
    (condition,) = read(cluster, rs).status.conditions
    assert condition.reason == "FailedDelete"
    assert condition.message == "unable to delete pods: the server is currently unable to handle the request"
    assert {one.message for one in cluster.events(reason="FailedDelete")} == {
        "Error deleting: the server is currently unable to handle the request"
    }
    cluster.faults.clear()
    cluster.advance(1)
    assert active_pods_of(cluster, rs) == []
    assert read(cluster, rs).status.conditions == ()


# In spite of everything


def test_status_write_survives_conflicts(cluster: Cluster) -> None:
    cluster.faults.conflict("patch", "replicasets", times=3)
    rs = started(cluster, 1)
    cluster.advance(1)
    assert read(cluster, rs).status.replicas == 1


def test_late_watch_causes_no_duplicate_pods(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.faults.delay(60, "watch", "pods", times=1)
    cluster.faults.drop_watches("pods")
    cluster.settle()
    rs = cluster.add(replica_set("a", replicas=3))
    cluster.advance(30)
    cluster.client.patch(ReplicaSet, "a", {"metadata": {"labels": {"wake": "up"}}}, NS)
    cluster.advance(10)
    assert len(pods_of(cluster, rs)) == 3
    cluster.advance(minutes=10)
    assert len(pods_of(cluster, rs)) == 3
    assert counts(read(cluster, rs))[0] == 3


def test_recreated_replica_set_starts_from_scratch(cluster: Cluster) -> None:
    started(cluster, 2)
    cluster.client.delete(ReplicaSet, "a", NS, propagation="Orphan")
    cluster.client.patch(ReplicaSet, "a", {"metadata": {"finalizers": None}}, NS)
    again = cluster.add(replica_set("a", labels={"app": "new"}, replicas=3))
    cluster.settle()
    assert len(pods_of(cluster, again)) == 3


def test_unchanged_replica_set_is_not_written(cluster: Cluster) -> None:
    rs = started(cluster, 3)
    cluster.advance(1)
    before = read(cluster, rs).metadata.resource_version
    cluster.advance(hours=26)
    assert read(cluster, rs).metadata.resource_version == before


def test_simultaneous_ready_pods_cause_few_status_writes(cluster: Cluster) -> None:
    rs = started(cluster, 400)
    cluster.advance(1)
    watched = cluster.faults.delay(0, "patch", "replicasets", times=None)
    make_ready(cluster, *pods_of(cluster, rs))
    cluster.advance(1)
    assert counts(read(cluster, rs)) == (400, 400, 400, 400)
    assert watched.hits < 20


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    """Role that may update the status of replica sets, but not patch it."""
    cluster.start(wire(as_account(cluster, "replicaset-controller")))
    cluster.add(pod("lonely", labels={"app": "a"}))
    rs = cluster.add(replica_set("a", replicas=3))
    cluster.advance(1)
    make_ready(cluster, *pods_of(cluster, rs))
    cluster.advance(1)
    scale(cluster, rs, 2)
    cluster.advance(1)
    assert counts(read(cluster, rs)) == (2, 2, 2, 2)
    assert read(cluster, rs).status.observed_generation == 2
