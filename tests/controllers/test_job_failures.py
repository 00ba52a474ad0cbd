# SPDX-License-Identifier: Apache-2.0
"""Tests of failing Jobs: backoff, limits, deadlines, failure policies and pod replacement."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.job import wire
from kubeloop.testing import Cluster, job
from tests.controllers.jobs import (
    NAMESPACE,
    SECOND,
    active,
    bind,
    conditions,
    deleted,
    end_deleted,
    fail,
    job_events,
    job_of,
    pods,
    report,
    run,
    status,
    succeed,
)

BACKOFF = ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("True", "DeadlineExceeded", "Job was active longer than specified deadline")


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    return cluster


def with_spec(name: str = "job", **spec: Any) -> dict[str, Any]:
    """A job by its wire names."""
    template = {"spec": {"containers": [{"name": "app", "image": "x"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": template, **spec},
    }


def test_failed_pod_is_replaced_with_exponential_backoff(plane: Cluster) -> None:
    plane.add(job(backoff_limit=6))
    plane.advance(SECOND)
    for failures, pause in enumerate((10, 20, 40, 80), 1):
        fail(plane, *active(plane))
        plane.advance(pause - SECOND)
        assert not active(plane)
        assert status(plane) == {"failed": failures}
        plane.advance(2 * SECOND)
        assert len(active(plane)) == 1


def test_backoff_is_limited_to_ten_minutes(plane: Cluster) -> None:
    plane.add(job(backoff_limit=100))
    plane.advance(SECOND)
    for _ in range(9):
        fail(plane, *active(plane))
        plane.advance(601)
        assert len(active(plane)) == 1


def test_success_resets_the_backoff(plane: Cluster) -> None:
    plane.add(job(parallelism=1, completions=5))
    plane.advance(SECOND)
    for pause in (10, 20):
        fail(plane, *active(plane))
        plane.advance(pause + SECOND)
    succeed(plane, *active(plane))
    plane.advance(SECOND)
    assert len(active(plane)) == 1, "no pause after a success"
    fail(plane, *active(plane))
    plane.advance(11)
    assert len(active(plane)) == 1, "the shortest pause again"


def test_job_fails_when_the_backoff_limit_is_exceeded(plane: Cluster) -> None:
    plane.add(job(parallelism=3, completions=5, backoff_limit=1))
    plane.advance(SECOND)
    fail(plane, *active(plane)[:2])
    plane.advance(SECOND)
    assert conditions(plane) == {"FailureTarget": BACKOFF, "Failed": BACKOFF}
    assert [one.type for one in job_of(plane).status.conditions] == ["FailureTarget", "Failed"]
    assert status(plane) == {"failed": 3}, "what still ran is deleted and counts as failed"
    assert not active(plane)
    assert job_of(plane).status.completion_time is None
    assert job_events(plane)[-1] == "Warning BackoffLimitExceeded: Job has reached the specified backoff limit"


def test_job_is_failed_only_after_its_last_pod_terminated(plane: Cluster) -> None:
    plane.add(job(parallelism=2, completions=2, backoff_limit=0))
    plane.advance(SECOND)
    one, other = pods(plane)
    bind(plane, one, other)
    run(plane, one, other)
    fail(plane, one)
    plane.advance(SECOND)
    assert conditions(plane) == {"FailureTarget": BACKOFF}
    assert status(plane) == {"failed": 2, "terminating": 1}
    end_deleted(plane)
    plane.advance(SECOND)
    assert conditions(plane) == {"FailureTarget": BACKOFF, "Failed": BACKOFF}
    assert status(plane) == {"failed": 2}


def test_container_restarts_count_for_restart_policy_on_failure(plane: Cluster) -> None:
    made = with_spec(backoffLimit=2)
    made["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    plane.add(made)
    plane.advance(SECOND)
    (pod,) = pods(plane)
    started = {"name": "app", "image": "x", "imageID": "", "ready": True, "state": {"running": {}}}
    report(plane, pod, phase="Running", containerStatuses=[{**started, "restartCount": 1}])
    plane.advance(SECOND)
    assert not conditions(plane)
    report(plane, pod, phase="Running", containerStatuses=[{**started, "restartCount": 2}])
    plane.advance(SECOND)
    assert conditions(plane)["Failed"] == BACKOFF


def test_deleted_pod_counts_as_failed_and_is_replaced(plane: Cluster) -> None:
    plane.add(job())
    plane.advance(SECOND)
    (pod,) = pods(plane)
    bind(plane, pod)
    run(plane, pod)
    plane.client.delete(Pod, pod.metadata.name, NAMESPACE)
    plane.advance(11)
    assert len(pods(plane)) == 2, "its replacement does not wait for its end"
    assert status(plane) == {"active": 1, "failed": 1, "terminating": 1}
    end_deleted(plane)
    plane.advance(SECOND)
    assert status(plane) == {"active": 1, "failed": 1}


def test_pod_replacement_policy_failed_waits_for_termination(plane: Cluster) -> None:
    plane.add(with_spec(podReplacementPolicy="Failed", parallelism=2, completions=4))
    plane.advance(SECOND)
    one, other = pods(plane)
    bind(plane, one, other)
    run(plane, one, other)
    plane.client.delete(Pod, one.metadata.name, NAMESPACE)
    plane.advance(30)
    assert len(pods(plane)) == 2
    assert status(plane) == {"active": 1, "ready": 1, "terminating": 1}
    fail(plane, one)
    plane.advance(11)
    assert len(active(plane)) == 2
    assert status(plane) == {"active": 2, "ready": 1, "failed": 1}


def test_deleted_pod_that_succeeds_counts_with_replacement_policy_failed(
    plane: Cluster,
) -> None:
    plane.add(with_spec(podReplacementPolicy="Failed"))
    plane.advance(SECOND)
    (pod,) = pods(plane)
    bind(plane, pod)
    run(plane, pod)
    plane.client.delete(Pod, pod.metadata.name, NAMESPACE)
    plane.advance(SECOND)
    succeed(plane, pod)
    plane.advance(SECOND)
    assert status(plane) == {"succeeded": 1}
    assert "Complete" in conditions(plane)


def test_active_deadline_fails_the_job(plane: Cluster) -> None:
    plane.add(job(active_deadline_seconds=60, parallelism=2, completions=2))
    plane.advance(59)
    assert len(active(plane)) == 2
    plane.advance(2)
    assert not active(plane)
    assert conditions(plane)["Failed"] == DEADLINE
    assert status(plane) == {"failed": 2}
    assert job_events(plane)[-1] == "Warning DeadlineExceeded: Job was active longer than specified deadline"


def test_active_deadline_can_be_changed(plane: Cluster) -> None:
    plane.add(job("job", active_deadline_seconds=1000), job("late"))
    plane.advance(100)
    plane.client.patch(Job, "job", {"spec": {"activeDeadlineSeconds": 110}}, NAMESPACE)
    plane.client.patch(Job, "late", {"spec": {"activeDeadlineSeconds": 120}}, NAMESPACE)
    plane.advance(9)
    assert not conditions(plane)
    plane.advance(2)
    assert conditions(plane)["Failed"] == DEADLINE
    plane.advance(10)
    assert conditions(plane, "late")["Failed"] == DEADLINE


# The pod failure policy.

RULES = [
    {"action": "FailJob", "onExitCodes": {"containerName": "app", "operator": "In", "values": [42, 43]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [7]}},
    {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]},
]


def test_failure_policy_fails_the_job_by_exit_code(plane: Cluster) -> None:
    plane.add(with_spec(podFailurePolicy={"rules": RULES}, parallelism=2, completions=2))
    plane.advance(SECOND)
    one, _ = pods(plane)
    fail(plane, one, code=43)
    plane.advance(SECOND)
    message = (
        f"Container app for pod default/{one.metadata.name} failed with exit code 43 matching FailJob rule at index 0"
    )
    assert conditions(plane)["Failed"] == ("True", "PodFailurePolicy", message)
    assert job_events(plane)[-1] == f"Warning PodFailurePolicy: {message}"
    assert not active(plane)


def test_failure_policy_fails_the_job_by_condition(plane: Cluster) -> None:
    plane.add(with_spec(podFailurePolicy={"rules": RULES}))
    plane.advance(SECOND)
    (one,) = pods(plane)
    fail(plane, one, code=7, conditions=[("ConfigIssue", "True")])
    plane.advance(SECOND)
    message = f"Pod default/{one.metadata.name} has condition ConfigIssue matching FailJob rule at index 3"
    assert conditions(plane)["FailureTarget"] == ("True", "PodFailurePolicy", message)


def test_failure_policy_ignores_disruptions(plane: Cluster) -> None:
    plane.add(with_spec(podFailurePolicy={"rules": RULES}, backoffLimit=0))
    plane.advance(SECOND)
    for _ in range(3):
        fail(plane, *active(plane), code=137, conditions=[("DisruptionTarget", "True")])
        plane.advance(minutes=11)
        assert len(active(plane)) == 1
        assert status(plane) == {"active": 1}
    fail(plane, *active(plane), code=1)
    plane.advance(SECOND)
    assert conditions(plane)["Failed"] == BACKOFF


def test_failure_policy_waits_for_termination_of_a_deleted_pod(plane: Cluster) -> None:
    """A policy needs the exit code, so that jobs with one replace only what has ended."""
    plane.add(with_spec(podFailurePolicy={"rules": RULES}))
    plane.advance(SECOND)
    (one,) = pods(plane)
    bind(plane, one)
    run(plane, one)
    plane.client.delete(Pod, one.metadata.name, NAMESPACE)
    plane.advance(SECOND)
    assert not conditions(plane)
    fail(plane, one, code=42)
    plane.advance(SECOND)
    assert conditions(plane)["Failed"][1] == "PodFailurePolicy"


# Suspension.


def test_suspended_job_has_no_pods_and_starts_when_resumed(plane: Cluster) -> None:
    plane.add(job(suspend=True, parallelism=2, completions=2))
    plane.advance(100)
    assert not pods(plane)
    assert conditions(plane) == {"Suspended": ("True", "JobSuspended", "Job suspended")}
    assert job_of(plane).status.start_time is None
    assert job_events(plane) == ["Normal Suspended: Job suspended"]
    plane.client.patch(Job, "job", {"spec": {"suspend": False}}, NAMESPACE)
    plane.advance(SECOND)
    assert len(active(plane)) == 2
    assert conditions(plane) == {"Suspended": ("False", "JobResumed", "Job resumed")}
    assert job_of(plane).status.start_time == "2026-01-01T00:01:40Z"
    assert "Normal Resumed: Job resumed" in job_events(plane)


def test_suspending_deletes_running_pods_uncounted(plane: Cluster) -> None:
    plane.add(job(parallelism=2, completions=2, backoff_limit=0))
    plane.advance(SECOND)
    bind(plane, *pods(plane))
    run(plane, *pods(plane))
    plane.client.patch(Job, "job", {"spec": {"suspend": True}}, NAMESPACE)
    plane.advance(SECOND)
    assert all(deleted(one) for one in pods(plane))
    assert status(plane) == {"terminating": 2}
    assert job_of(plane).status.start_time is None
    end_deleted(plane)
    plane.advance(SECOND)
    assert status(plane) == {}
    plane.client.patch(Job, "job", {"spec": {"suspend": False}}, NAMESPACE)
    plane.advance(SECOND)
    assert len(active(plane)) == 2
    assert "Failed" not in conditions(plane)


def test_active_deadline_stops_while_suspended(plane: Cluster) -> None:
    plane.add(job(active_deadline_seconds=60))
    plane.advance(50)
    plane.client.patch(Job, "job", {"spec": {"suspend": True}}, NAMESPACE)
    plane.advance(1000)
    assert "Failed" not in conditions(plane)
    plane.client.patch(Job, "job", {"spec": {"suspend": False}}, NAMESPACE)
    plane.advance(58)
    assert "Failed" not in conditions(plane)
    plane.advance(3)
    assert conditions(plane)["Failed"] == DEADLINE
