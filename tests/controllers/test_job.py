# SPDX-License-Identifier: Apache-2.0
"""Tests of Jobs: parallelism, counting, and events."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubeloop.api.errors import forbidden
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.job import wire
from kubeloop.testing import Cluster, job, metadata, pod, replica_set
from tests.controllers.jobs import (
    NAMESPACE,
    SECOND,
    TRACKING,
    active,
    bind,
    conditions,
    deleted,
    end_deleted,
    fail,
    job_events,
    job_of,
    pods,
    run,
    status,
    succeed,
)

COMPLETE = ("True", "CompletionsReached", "Reached expected number of succeeded pods")


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    return cluster


def test_pods_are_created_with_the_tracking_finalizer(plane: Cluster) -> None:
    plane.add(job())
    plane.advance(SECOND)
    (pod,) = pods(plane)
    uid = job_of(plane).metadata.uid
    assert pod.metadata.generate_name == "job-"
    assert pod.metadata.finalizers == (TRACKING,)
    assert pod.metadata.labels == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "job",
        "controller-uid": uid,
        "job-name": "job",
    }
    (owner,) = pod.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Job", "job", uid, True)
    assert status(plane) == {"active": 1}
    assert job_events(plane) == ["Normal SuccessfulCreate: Created"]


def test_job_completes_when_its_pods_have_succeeded(plane: Cluster) -> None:
    plane.add(job(parallelism=3, completions=3))
    plane.advance(SECOND)
    succeed(plane, *pods(plane))
    plane.advance(SECOND)
    done = job_of(plane)
    assert status(plane) == {"succeeded": 3}
    assert [one.type for one in done.status.conditions] == ["SuccessCriteriaMet", "Complete"]
    assert conditions(plane) == {"SuccessCriteriaMet": COMPLETE, "Complete": COMPLETE}
    assert done.status.completion_time == done.status.conditions[-1].last_transition_time
    assert not any(one.metadata.finalizers for one in pods(plane))
    assert job_events(plane)[-1] == "Normal Completed: Job completed"


def test_active_pods_never_exceed_parallelism_or_remaining_completions(plane: Cluster) -> None:
    plane.add(job(parallelism=3, completions=5))
    plane.advance(SECOND)
    assert len(active(plane)) == 3
    succeed(plane, active(plane)[0])
    plane.advance(SECOND)
    assert len(active(plane)) == 3
    succeed(plane, *active(plane)[:2])
    plane.advance(SECOND)
    assert len(active(plane)) == 2
    assert status(plane) == {"active": 2, "succeeded": 3}


def test_work_queue_job_completes_after_one_success_and_running_pods(plane: Cluster) -> None:
    plane.add(job(parallelism=3))
    plane.advance(SECOND)
    succeed(plane, active(plane)[0])
    plane.advance(SECOND)
    assert len(active(plane)) == 2, "nobody is replaced any more"
    fail(plane, active(plane)[0])
    plane.advance(20)
    assert len(active(plane)) == 1
    assert "Complete" not in conditions(plane)
    succeed(plane, *active(plane))
    plane.advance(SECOND)
    assert conditions(plane)["Complete"] == COMPLETE
    assert status(plane) == {"succeeded": 2, "failed": 1}


def test_job_with_zero_completions_completes_immediately(plane: Cluster) -> None:
    plane.add(job(completions=0))
    plane.advance(SECOND)
    assert conditions(plane)["Complete"] == COMPLETE
    assert not pods(plane)


def test_job_with_zero_parallelism_waits(plane: Cluster) -> None:
    plane.add(job(parallelism=0, completions=2))
    plane.advance(SECOND)
    assert not pods(plane)
    assert status(plane) == {}
    assert job_of(plane).status.start_time is not None
    plane.client.patch(Job, "job", {"spec": {"parallelism": 2}}, NAMESPACE)
    plane.advance(SECOND)
    assert len(active(plane)) == 2


def test_surplus_pods_are_deleted_uncounted_least_progressed_first(plane: Cluster) -> None:
    plane.add(job(parallelism=3, completions=9))
    plane.advance(SECOND)
    _, second, _ = pods(plane)
    bind(plane, second)
    run(plane, second)
    plane.advance(SECOND)
    plane.client.patch(Job, "job", {"spec": {"parallelism": 1}}, NAMESPACE)
    plane.advance(SECOND)
    assert [one.metadata.name for one in pods(plane)] == [second.metadata.name]
    assert status(plane) == {"active": 1, "ready": 1}
    assert job_events(plane).count("Normal SuccessfulDelete: Deleted") == 2


def test_ready_and_terminating_pods_are_reported(plane: Cluster) -> None:
    plane.add(job(parallelism=3, completions=9))
    plane.advance(SECOND)
    bind(plane, *pods(plane))
    run(plane, *pods(plane))
    plane.advance(SECOND)
    assert status(plane) == {"active": 3, "ready": 3}
    plane.client.delete(Pod, pods(plane)[0].metadata.name, NAMESPACE)
    plane.advance(SECOND)
    assert status(plane) == {"active": 2, "ready": 2, "terminating": 1, "failed": 1}
    plane.advance(10)
    assert status(plane) == {"active": 3, "ready": 2, "terminating": 1, "failed": 1}
    end_deleted(plane)
    plane.advance(SECOND)
    assert status(plane) == {"active": 3, "ready": 2, "failed": 1}


def test_rejected_create_records_an_event_and_is_retried(plane: Cluster) -> None:
    plane.faults.fail("create", "pods", forbidden("", "pods", "", "exceeded quota"), times=2)
    plane.add(job(parallelism=3, completions=3))
    plane.settle()
    assert not pods(plane), "the first refusal ends the attempt"
    assert job_events(plane)[0].startswith("Warning FailedCreate: Error creating: ")
    plane.advance(5)
    assert len(active(plane)) == 3
    assert status(plane) == {"active": 3}


def test_terminating_namespace_is_not_a_failure(plane: Cluster) -> None:
    plane.add(job())
    plane.advance(SECOND)
    plane.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ending"}})
    plane.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ending"}})
    plane.client.create(job("late", "ending"))
    plane.client.delete("namespaces", "ending")
    plane.advance(SECOND)
    assert not [one for one in plane.events("ending") if one.reason == "FailedCreate"]


def test_many_pods_are_counted_in_batches(plane: Cluster) -> None:
    plane.add(job(parallelism=600, completions=600))
    plane.advance(SECOND)
    assert len(pods(plane)) == 600
    succeed(plane, *pods(plane))
    plane.advance(5)
    assert status(plane) == {"succeeded": 600}
    assert conditions(plane)["Complete"] == COMPLETE


def test_job_managed_by_another_controller_is_ignored(plane: Cluster) -> None:
    plane.add(job("theirs", managed_by="example.com/other"), job("ours", managed_by="kubernetes.io/job-controller"))
    plane.advance(SECOND)
    assert not pods(plane, name="theirs")
    assert pods(plane, name="ours")


def test_matching_orphan_pod_is_adopted_with_finalizer(plane: Cluster) -> None:
    made = plane.add(job())
    plane.advance(SECOND)
    (own,) = pods(plane)
    lone: dict[str, list[str]] = {"ownerReferences": [], "finalizers": []}
    plane.client.patch(Pod, own.metadata.name, {"metadata": lone}, NAMESPACE)
    plane.advance(SECOND)
    (adopted,) = pods(plane)
    assert adopted.metadata.owner_references[0].uid == made.metadata.uid
    assert adopted.metadata.finalizers == (TRACKING,)
    assert status(plane) == {"active": 1}


def test_pod_that_no_longer_matches_is_released_and_replaced(plane: Cluster) -> None:
    plane.add(job())
    plane.advance(SECOND)
    (own,) = pods(plane)
    other = {"labels": {"batch.kubernetes.io/controller-uid": "another"}}
    plane.client.patch(Pod, own.metadata.name, {"metadata": other}, NAMESPACE)
    plane.advance(SECOND)
    released = plane.client.get(Pod, own.metadata.name, NAMESPACE)
    assert not released.metadata.owner_references
    assert not released.metadata.finalizers
    assert len(pods(plane)) == 2


def test_manual_selector_counts_its_pods(plane: Cluster) -> None:
    labels = {"job-name": "job", "team": "blue"}
    selector = {"matchLabels": {"team": "blue"}}
    plane.add(_by_hand(labels, selector))
    plane.advance(SECOND)
    (pod,) = pods(plane)
    assert pod.metadata.labels == labels
    succeed(plane, pod)
    plane.advance(SECOND)
    assert conditions(plane)["Complete"] == COMPLETE


def _by_hand(labels: dict[str, str], selector: dict[str, dict[str, str]]) -> dict[str, object]:
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "x"}], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": NAMESPACE},
        "spec": {"manualSelector": True, "selector": selector, "template": template},
    }


def test_deleted_job_removes_finalizers_of_its_pods(plane: Cluster) -> None:
    plane.add(job(parallelism=2, completions=2))
    plane.advance(SECOND)
    plane.client.delete(Job, "job", NAMESPACE, propagation="Background")
    plane.advance(SECOND)
    assert [one.metadata.finalizers for one in pods(plane)] == [(), ()]


def test_orphaned_pods_lose_the_finalizer(plane: Cluster) -> None:
    """Garbage collection takes the owner from the pods before it lets the job go."""
    plane.add(job())
    plane.advance(SECOND)
    plane.client.delete(Job, "job", NAMESPACE, propagation="Orphan")
    (pod,) = pods(plane)
    plane.client.patch(Pod, pod.metadata.name, {"metadata": {"ownerReferences": []}}, NAMESPACE)
    plane.advance(SECOND)
    (pod,) = pods(plane)
    assert not pod.metadata.finalizers
    assert not pod.metadata.owner_references


def test_job_being_deleted_creates_no_pods_and_removes_finalizers(plane: Cluster) -> None:
    made = job(parallelism=2, completions=2)
    plane.add(made)
    plane.advance(SECOND)
    plane.client.delete(Job, "job", NAMESPACE, propagation="Foreground")
    plane.advance(SECOND)
    found = pods(plane)
    assert len(found) == 2
    assert not any(one.metadata.finalizers for one in found)
    for one in found:
        plane.client.delete(Pod, one.metadata.name, NAMESPACE)
    plane.advance(SECOND)
    assert not pods(plane)


def test_pod_of_a_missing_job_loses_its_finalizer_on_deletion(cluster: Cluster) -> None:
    """Pod of a job that was deleted while no controller ran."""
    loop = cluster.start(wire)
    cluster.add(job())
    cluster.advance(SECOND)
    cluster.stop(loop)
    cluster.client.delete(Job, "job", NAMESPACE, propagation="Background")
    cluster.client.delete(Pod, pods(cluster)[0].metadata.name, NAMESPACE)
    assert deleted(pods(cluster)[0])
    cluster.start(wire)
    cluster.advance(SECOND)
    assert not pods(cluster)


def test_pod_failing_after_completion_is_not_counted(plane: Cluster) -> None:
    plane.add(job())
    plane.advance(SECOND)
    succeed(plane, *pods(plane))
    plane.advance(SECOND)
    plane.client.delete(Pod, pods(plane)[0].metadata.name, NAMESPACE)
    plane.advance(SECOND)
    assert status(plane) == {"succeeded": 1}


def test_start_time_is_that_of_the_first_sync(plane: Cluster) -> None:
    plane.advance(100)
    plane.add(job())
    plane.advance(SECOND)
    start = job_of(plane).status.start_time
    assert start is not None
    assert (plane.clock.now() - parse_time(start)).total_seconds() == pytest.approx(SECOND)


def test_idle_job_is_not_written(plane: Cluster) -> None:
    plane.add(job(parallelism=2, completions=2))
    plane.advance(SECOND)
    before = job_of(plane).metadata.resource_version
    plane.advance(hours=1)
    assert job_of(plane).metadata.resource_version == before


def test_pod_of_an_externally_managed_job_keeps_its_finalizer(plane: Cluster) -> None:
    theirs = plane.add(job(managed_by="example.com/other"))
    about = metadata("theirs", NAMESPACE, labels=dict(theirs.spec.template.metadata.labels), owner=theirs)
    bare = pod("theirs")
    plane.add(Pod(metadata=replace(about, finalizers=(TRACKING,)), spec=bare.spec))
    plane.client.delete(Pod, "theirs", NAMESPACE)
    plane.advance(10)
    (kept,) = pods(plane)
    assert kept.metadata.finalizers == (TRACKING,)


def test_pod_of_another_owner_kind_keeps_its_finalizer(plane: Cluster) -> None:
    owner = plane.add(replica_set("owner", replicas=0))
    about = metadata("strange", NAMESPACE, owner=owner)
    plane.add(Pod(metadata=replace(about, finalizers=(TRACKING,)), spec=pod("strange").spec))
    plane.client.delete(Pod, "strange", NAMESPACE)
    plane.advance(10)
    assert plane.client.get(Pod, "strange", NAMESPACE).metadata.finalizers == (TRACKING,)


def test_metrics_count_syncs_and_pods(plane: Cluster) -> None:
    plane.add(job(parallelism=2, completions=2), job("theirs", managed_by="example.com/other"))
    plane.advance(SECOND)
    one, other = pods(plane)
    fail(plane, one)
    succeed(plane, other)
    plane.advance(30)
    succeed(plane, *active(plane))
    plane.advance(SECOND)
    lines = set(plane.context.telemetry.registry.render().splitlines())
    assert {
        "job_controller_jobs_finished_total"
        '{completion_mode="NonIndexed",reason="CompletionsReached",result="succeeded"} 1',
        'job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 2',
        'job_controller_job_pods_finished_total{completion_mode="NonIndexed",result="failed"} 1',
        'job_controller_job_pods_creation_total{reason="new",status="succeeded"} 2',
        'job_controller_job_pods_creation_total{reason="recreate_terminating_or_failed",status="succeeded"} 1',
        'job_controller_jobs_by_external_controller_total{controller_name="example.com/other"} 1',
        'job_controller_terminated_pods_tracking_finalizer_total{event="add"} 3',
        'job_controller_terminated_pods_tracking_finalizer_total{event="delete"} 3',
    } <= lines
