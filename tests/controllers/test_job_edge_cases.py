# SPDX-License-Identifier: Apache-2.0
"""Jobs in the corners that upstream's integration tests look into: suspension, sizes, restarts, namesakes, delays."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from kubeloop.api.errors import Invalid, NotFound
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.job import wire
from kubeloop.testing import Cluster
from tests.controllers.faults import ControllerProcess
from tests.controllers.jobs import (
    NAMESPACE,
    SECOND,
    TRACKING,
    active,
    bind,
    conditions,
    end_deleted,
    fail,
    indexes,
    job_of,
    of_index,
    pods,
    status,
    succeed,
)

REACHED = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
SIZES = {"requests": {"cpu": "200m"}, "limits": {"cpu": "400m"}}


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    return cluster


def wanted(name: str = "job", *, finalizers: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"finalizers": list(finalizers)},
        "spec": {"containers": [{"name": "app", "image": "x"}], "restartPolicy": "Never"},
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


def indexed(size: int, **spec: Any) -> dict[str, Any]:
    return wanted(completionMode="Indexed", completions=size, parallelism=size, **spec)


def change(plane: Cluster, **spec: Any) -> None:
    plane.client.patch(Job, "job", {"spec": spec}, NAMESPACE)


def with_template(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


# Suspended jobs.


def test_suspended_job_with_zero_completions_completes(plane: Cluster) -> None:
    """Upstream: TestSuspendJobWithZeroCompletions."""
    plane.add(wanted(completions=0, suspend=True))
    plane.advance(SECOND)
    assert conditions(plane) == {"SuccessCriteriaMet": REACHED, "Complete": REACHED}


def test_suspended_job_can_change_scheduling_and_resources(plane: Cluster) -> None:
    """Upstream: TestMutableSchedulingDirectivesForSuspendedJobs, TestUpdateJobPodResources, TestNodeSelectorUpdate."""
    moved = with_template(nodeSelector={"key": "value"})
    resized = with_template(containers=[{"name": "app", "image": "x", "resources": SIZES}])
    plane.add(wanted(parallelism=1))
    plane.advance(SECOND)
    for update in (moved, resized):
        with pytest.raises(Invalid):
            change(plane, **update)
    change(plane, suspend=True)
    plane.advance(SECOND)
    said = job_of(plane)
    assert (said.status.start_time, conditions(plane)["Suspended"][0]) == (None, "True")
    for update in (moved, resized):
        change(plane, **update)
    change(plane, suspend=False)
    plane.advance(SECOND)
    (made,) = active(plane)
    assert made.spec.node_selector == {"key": "value"}
    sizes = [one.resources.limits for one in made.spec.containers or () if one.resources is not None]
    assert sizes == [{"cpu": "400m"}]
    assert job_of(plane).status.start_time is not None


def test_never_started_suspended_job_can_change_scheduling_before_the_first_sync(cluster: Cluster) -> None:
    """Upstream: TestMutableSchedulingDirectivesForSuspendedJobsNotYetStarted, and the same for resources."""
    cluster.add(wanted(suspend=True))
    change(cluster, **with_template(nodeSelector={"foo": "bar"}))
    change(cluster, **with_template(containers=[{"name": "app", "image": "x", "resources": SIZES}]))


def test_resumed_job_waits_for_terminating_pods(plane: Cluster) -> None:
    """Upstream: TestMutablePodResourcesWithPodReplacementPolicyFailed."""
    plane.add(wanted(parallelism=2, completions=2, podReplacementPolicy="Failed", finalizers=("example.com/stay",)))
    plane.advance(SECOND)
    change(plane, suspend=True)
    plane.advance(SECOND)
    assert status(plane) == {"terminating": 2}
    change(plane, suspend=False)
    plane.advance(SECOND)
    assert (status(plane), len(pods(plane))) == ({"terminating": 2}, 2), "none is made while the others end"
    for one in pods(plane):
        plane.client.patch(Pod, one.metadata.name, {"metadata": {"finalizers": None}}, NAMESPACE)
    plane.advance(SECOND)
    assert status(plane) == {"active": 2}


def test_restarted_controller_keeps_a_job_suspended(cluster: Cluster) -> None:
    """Upstream: TestSuspendJobControllerRestart."""
    process = ControllerProcess(cluster, wire)
    cluster.add(wanted(parallelism=2, completions=2, suspend=True))
    cluster.advance(SECOND)
    process.disturb("crash", 0)
    cluster.advance(minutes=1)
    assert (pods(cluster), conditions(cluster)["Suspended"][0]) == ([], "True")


# Resized jobs.


def test_scaled_down_job_waits_for_its_last_pods(plane: Cluster) -> None:
    """Upstream: TestDelayTerminalPhaseCondition."""
    plane.add(indexed(2))
    plane.advance(SECOND)
    bind(plane, *pods(plane))
    succeed(plane, of_index(pods(plane), 0))
    plane.advance(SECOND)
    change(plane, completions=1, parallelism=1)
    plane.advance(SECOND)
    assert status(plane) == {"succeeded": 1, "terminating": 1, "completedIndexes": "0"}
    assert conditions(plane) == {"SuccessCriteriaMet": REACHED}
    end_deleted(plane)
    plane.advance(SECOND)
    assert status(plane) == {"succeeded": 1, "completedIndexes": "0"}
    assert conditions(plane) == {"SuccessCriteriaMet": REACHED, "Complete": REACHED}


def test_removed_index_is_run_again_when_added_back(plane: Cluster) -> None:
    """Upstream: TestElasticIndexedJob, where a finished index goes and returns, and where all go."""
    plane.add(indexed(3))
    plane.advance(SECOND)
    succeed(plane, of_index(active(plane), 2))
    plane.advance(SECOND)
    assert status(plane) == {"active": 2, "succeeded": 1, "completedIndexes": "2"}
    change(plane, completions=2, parallelism=2)
    plane.advance(SECOND)
    assert status(plane) == {"active": 2}
    change(plane, completions=3, parallelism=3)
    plane.advance(SECOND)
    assert (status(plane), indexes(active(plane))) == ({"active": 3}, [0, 1, 2])
    change(plane, completions=0, parallelism=0)
    plane.advance(SECOND)
    assert (status(plane), conditions(plane)["Complete"]) == ({}, REACHED)


def test_elastic_indexed_job_can_be_scaled(plane: Cluster) -> None:
    """Upstream: TestParallelJobChangingParallelism."""
    plane.add(wanted(parallelism=5, completions=5, backoffLimit=2))
    for parallelism in (4, 2, 4):
        change(plane, parallelism=parallelism)
        plane.advance(SECOND)
        assert (status(plane), len(active(plane))) == ({"active": parallelism}, parallelism)


# Failures.


def test_failed_index_overrides_a_success_policy(plane: Cluster) -> None:
    """Upstream: TestSuccessPolicy, the job that meets backoffLimitPerIndex."""
    plane.add(indexed(2, backoffLimitPerIndex=0, successPolicy={"rules": [{"succeededCount": 1}]}))
    plane.advance(SECOND)
    fail(plane, of_index(active(plane), 0))
    plane.advance(SECOND)
    assert status(plane) == {"active": 1, "failed": 1, "failedIndexes": "0"}
    succeed(plane, of_index(active(plane), 1))
    plane.advance(SECOND)
    assert status(plane) == {"failed": 1, "succeeded": 1, "failedIndexes": "0", "completedIndexes": "1"}
    failed = ("True", "FailedIndexes", "Job has failed indexes")
    assert conditions(plane) == {"FailureTarget": failed, "Failed": failed}


def test_failure_target_survives_restart_and_pod_deletion(cluster: Cluster) -> None:
    """Upstream: TestJobPodFailurePolicyWithFailedPodDeletedDuringControllerRestart."""
    process = ControllerProcess(cluster, wire)
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}}
    cluster.add(wanted(parallelism=2, completions=2, podFailurePolicy={"rules": [rule]}))
    cluster.advance(SECOND)
    name = pods(cluster)[0].metadata.name
    cluster.faults.fail("patch", "pods", times=None)  # no finalizer is removed
    fail(cluster, pods(cluster)[0], code=5)
    cluster.advance(SECOND)
    why = f"Container app for pod default/{name} failed with exit code 5 matching FailJob rule at index 0"
    assert conditions(cluster) == {"FailureTarget": ("True", "PodFailurePolicy", why)}
    for one in pods(cluster):
        cluster.client.patch(Pod, one.metadata.name, {"metadata": {"finalizers": None}}, NAMESPACE)
        with suppress(NotFound):  # deleted before
            cluster.client.delete(Pod, one.metadata.name, NAMESPACE, grace_seconds=0)
    cluster.faults.clear()
    process.disturb("crash", 0)
    cluster.advance(minutes=2)
    assert conditions(cluster)["Failed"] == ("True", "PodFailurePolicy", why)
    assert status(cluster)["failed"] == 2


def test_failed_large_job_removes_all_finalizers(plane: Cluster) -> None:
    """Upstream: TestFinalizersClearedWhenBackoffLimitExceeded, TestJobFailedWithInterrupts."""
    plane.add(wanted(parallelism=50, completions=50, backoffLimit=0))
    plane.advance(SECOND)
    plane.faults.fail("patch", "pods", times=30)
    fail(plane, pods(plane)[0])
    plane.advance(minutes=2)
    assert conditions(plane)["Failed"][:2] == ("True", "BackoffLimitExceeded")
    assert (status(plane), [one for one in pods(plane) if TRACKING in one.metadata.finalizers]) == ({"failed": 50}, [])


# Namesakes and delays.


@pytest.mark.parametrize("elsewhere", [False, True])
def test_recreated_job_starts_from_scratch(plane: Cluster, elsewhere: bool) -> None:
    """Upstream: TestImmediateJobRecreation, TestManagedBy_RecreatedJob."""
    plane.add(wanted(parallelism=1))
    plane.advance(SECOND)
    first = job_of(plane).metadata.uid
    plane.client.delete(Job, "job", NAMESPACE, propagation="Background")
    plane.client.create(wanted(parallelism=1, managedBy="example.com/other" if elsewhere else None))
    plane.advance(SECOND)
    own = [one for one in pods(plane) if one.metadata.owner_references[0].uid != first]
    assert (len(own), status(plane)) == ((0, {}) if elsewhere else (1, {"active": 1}))


@pytest.mark.parametrize(("act", "end"), [(succeed, "Complete"), (fail, "Failed")])
def test_no_pod_is_created_while_a_termination_is_unobserved(cluster: Cluster, act: Any, end: str) -> None:
    """Upstream: TestDelayedJobUpdateEvent."""
    cluster.start(wire)
    cluster.add(wanted(parallelism=1, completions=1, backoffLimit=0))
    cluster.advance(SECOND)
    cluster.faults.delay(30, "watch", "jobs", times=1)
    cluster.faults.drop_watches("jobs")
    act(cluster, *pods(cluster))
    cluster.advance(20)
    assert (end in conditions(cluster), len(pods(cluster))) == (True, 1)
    cluster.advance(minutes=2)
    assert len(pods(cluster)) == 1
