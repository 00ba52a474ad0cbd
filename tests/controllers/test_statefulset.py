# SPDX-License-Identifier: Apache-2.0
"""Tests of StatefulSets on a whole server: order, identity, scaling and events."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import forbidden
from kubeloop.api.generated.apps_v1 import ControllerRevision, StatefulSet, StatefulSetOrdinals
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.statefulset import wire
from kubeloop.runtime.controller import Controller
from kubeloop.testing import Cluster, pod, stateful_set
from tests.controllers.kubelet import Kubelet
from tests.controllers.stateful_sets import (
    NS,
    change,
    delete,
    event_messages,
    make_ready,
    make_unready,
    names,
    pods,
    read,
    revisions,
    set_status,
    start,
)


def counts(found: StatefulSet) -> tuple[int, int, int, int, int]:
    """Replicas, ready, available, current, updated."""
    said = found.status
    return said.replicas, said.ready_replicas, said.available_replicas, said.current_replicas, said.updated_replicas


# Making


def test_pods_have_stable_identities(cluster: Cluster) -> None:
    start(cluster)
    owner = cluster.add(stateful_set(replicas=2))
    cluster.settle()
    revision = read(cluster).status.update_revision
    first, second = pods(cluster)
    assert (first.metadata.name, first.metadata.generate_name) == ("app-0", "app-")
    assert (first.spec.hostname, first.spec.subdomain) == ("app-0", "app")
    assert dict(second.metadata.labels) == {
        "app": "app",
        "apps.kubernetes.io/pod-index": "1",
        "statefulset.kubernetes.io/pod-name": "app-1",
        "controller-revision-hash": revision,
    }
    reference = second.metadata.owner_references[0]
    assert (reference.kind, reference.uid, reference.controller) == ("StatefulSet", owner.metadata.uid, True)


def test_status_counts_running_pods(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    found = read(cluster)
    assert counts(found) == (3, 3, 3, 3, 3)
    assert found.status.observed_generation == 1
    assert found.status.collision_count == 0
    assert found.status.current_revision == found.status.update_revision
    assert found.status.current_revision.startswith("app-")


def test_pod_events_are_recorded_in_order(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2))
    cluster.settle()
    change(cluster, replicas=1)
    events = [one for one in cluster.events() if one.source.component == "statefulset-controller"]
    assert [(one.type, one.reason, one.message) for one in events] == [
        ("Normal", "SuccessfulCreate", "Create Pod app-0 in StatefulSet app successful"),
        ("Normal", "SuccessfulCreate", "Create Pod app-1 in StatefulSet app successful"),
        ("Normal", "SuccessfulDelete", "Delete Pod app-1 in StatefulSet app successful"),
    ]


def test_pod_waits_until_its_predecessor_is_ready(cluster: Cluster) -> None:
    kubelet = start(cluster)
    kubelet.runs = lambda one: one.metadata.name != "app-1"
    cluster.add(stateful_set(replicas=3))
    cluster.advance(minutes=10)
    assert names(cluster) == ["app-0", "app-1"]
    assert counts(read(cluster)) == (2, 1, 1, 2, 2)
    kubelet.runs = lambda _: True
    cluster.advance(1)
    assert names(cluster) == ["app-0", "app-1", "app-2"]


def test_parallel_pods_do_not_wait(cluster: Cluster) -> None:
    kubelet = start(cluster)
    kubelet.runs = lambda _: False
    cluster.add(stateful_set(replicas=5, pod_management_policy="Parallel"))
    cluster.settle()
    assert names(cluster) == [f"app-{number}" for number in range(5)]
    kubelet.lets_go = lambda _: False
    change(cluster, replicas=1)
    assert sum(one.metadata.deletion_timestamp is not None for one in pods(cluster)) == 4


def test_pod_waits_for_min_ready_seconds_of_its_predecessor(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2, min_ready_seconds=30))
    cluster.advance(29)
    assert names(cluster) == ["app-0"]
    assert counts(read(cluster)) == (1, 1, 0, 1, 1)
    cluster.advance(2)
    assert names(cluster) == ["app-0", "app-1"]
    cluster.advance(31)
    assert counts(read(cluster)) == (2, 2, 2, 2, 2)


def test_ordinals_start_at_spec_ordinals_start(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2, ordinals=StatefulSetOrdinals(start=5)))
    cluster.settle()
    assert names(cluster) == ["app-5", "app-6"]
    change(cluster, ordinals={"start": 6})
    assert names(cluster) == ["app-6", "app-7"]
    change(cluster, ordinals=None)
    assert names(cluster) == ["app-0", "app-1"]


def test_zero_replicas_create_no_pods(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=0))
    cluster.settle()
    assert names(cluster) == []
    assert read(cluster).status.observed_generation == 1
    assert len(revisions(cluster)) == 1


def test_many_pods_are_processed_in_one_sync(cluster: Cluster) -> None:
    cluster.start(Kubelet(cluster).wire)
    loop = cluster.start(wire)
    assert isinstance(loop, Controller)
    cluster.add(stateful_set(replicas=300, pod_management_policy="Parallel"))
    cluster.advance(1)
    assert counts(read(cluster)) == (300,) * 5
    assert loop.status().reconciles < 60


# Going


def test_pods_are_deleted_one_at_a_time_from_the_highest_ordinal(cluster: Cluster) -> None:
    kubelet = start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    kubelet.lets_go = lambda _: False
    change(cluster, replicas=1)
    cluster.advance(minutes=1)
    assert [one.metadata.name for one in pods(cluster) if one.metadata.deletion_timestamp] == ["app-2"]
    kubelet.lets_go = lambda one: one.metadata.name != "app-1"
    cluster.advance(1)
    assert [one.metadata.name for one in pods(cluster) if one.metadata.deletion_timestamp] == ["app-1"]
    kubelet.lets_go = lambda _: True
    cluster.advance(1)
    assert names(cluster) == ["app-0"]


def test_scale_down_waits_for_unhealthy_lower_pods(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    make_unready(cluster, "app-0")
    change(cluster, replicas=2)
    assert names(cluster) == ["app-0", "app-1", "app-2"]
    make_ready(cluster, "app-0")
    assert names(cluster) == ["app-0", "app-1"]


def test_condemned_pod_that_is_the_only_unhealthy_one_is_deleted(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    make_unready(cluster, "app-2")
    change(cluster, replicas=2)
    assert names(cluster) == ["app-0", "app-1"]


def test_unhealthy_condemned_pod_waits_for_an_unhealthy_lower_one(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    make_unready(cluster, "app-1")
    make_unready(cluster, "app-2")
    change(cluster, replicas=1)
    assert names(cluster) == ["app-0", "app-1", "app-2"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_terminated_pod_is_recreated_with_its_name(cluster: Cluster, phase: str) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2))
    cluster.settle()
    before = pods(cluster)[0].metadata.uid
    set_status(cluster, "app-0", phase=phase)
    assert names(cluster) == ["app-0", "app-1"]
    assert pods(cluster)[0].metadata.uid != before
    assert event_messages(cluster)[-2:] == [
        "Delete Pod app-0 in StatefulSet app successful",
        "Create Pod app-0 in StatefulSet app successful",
    ]


def test_deleted_pod_is_recreated_after_termination(cluster: Cluster) -> None:
    kubelet = start(cluster)
    cluster.add(stateful_set(replicas=2))
    cluster.settle()
    kubelet.lets_go = lambda _: False
    old = pods(cluster)[0].metadata.uid
    delete(cluster, "app-0")
    cluster.advance(minutes=5)
    assert pods(cluster)[0].metadata.uid == old
    assert counts(read(cluster))[3:] == (1, 1)
    kubelet.lets_go = lambda _: True
    cluster.advance(1)
    assert pods(cluster)[0].metadata.uid != old
    assert counts(read(cluster)) == (2, 2, 2, 2, 2)


def test_stateful_set_being_deleted_creates_nothing_but_updates_status(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2))
    cluster.settle()
    cluster.client.delete(StatefulSet, "app", NS, propagation="Foreground")
    delete(cluster, "app-1")
    assert names(cluster) == ["app-0"]
    assert read(cluster).status.replicas == 1


# Ownership of pods


def test_orphan_with_a_matching_name_is_adopted_and_updated(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(pod("app-0", labels={"app": "app"}))
    cluster.settle()
    old = pods(cluster)[0].metadata.uid
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    assert event_messages(cluster) == [
        "Update Pod app-0 in StatefulSet app successful",
        "Delete Pod app-0 in StatefulSet app successful",
        "Create Pod app-0 in StatefulSet app successful",
    ]
    assert pods(cluster)[0].metadata.uid != old


def test_orphan_with_another_name_is_ignored(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(pod("other-0", labels={"app": "app"}), pod("app", labels={"app": "app"}))
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    assert [bool(one.metadata.owner_references) for one in pods(cluster)] == [False, True, False]


def test_pod_that_no_longer_matches_is_released(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    cluster.client.patch(Pod, "app-0", {"metadata": {"labels": {"app": "other"}}}, NS)
    cluster.settle()
    assert not pods(cluster)[0].metadata.owner_references
    assert read(cluster).status.replicas == 0


def test_conflicting_pod_is_waited_for_without_an_event(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(pod("app-0", labels={"app": "stranger"}))
    cluster.add(stateful_set(replicas=1))
    cluster.advance(minutes=1)
    assert event_messages(cluster) == []
    delete(cluster, "app-0")
    cluster.advance(minutes=2)
    assert pods(cluster)[0].metadata.owner_references


def test_rejected_pod_records_an_event_and_is_retried(cluster: Cluster) -> None:
    start(cluster)
    cluster.faults.fail("create", "pods", forbidden("", "pods", "app-0", "no more"))
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    (message,) = event_messages(cluster, "FailedCreate")
    assert message.startswith("Create Pod app-0 in StatefulSet app failed error: pods ")
    cluster.advance(1)
    assert names(cluster) == ["app-0"]


def test_failed_pod_deletion_records_an_event(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    cluster.faults.fail("delete", "pods")
    change(cluster, replicas=0)
    (message,) = event_messages(cluster, "FailedDelete")
    assert message.startswith("Delete Pod app-0 in StatefulSet app failed error: the server is currently unable")
    cluster.advance(1)
    assert names(cluster) == []


def test_stateful_sets_with_the_same_labels_keep_their_own_pods(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set("a", labels={"app": "x"}, replicas=2), stateful_set("b", labels={"app": "x"}, replicas=1))
    cluster.settle()
    assert names(cluster) == ["a-0", "a-1", "b-0"]
    assert len(cluster.client.list(ControllerRevision, NS).items) == 2
