# SPDX-License-Identifier: Apache-2.0
"""Indexed jobs: each index is worked on until it has succeeded, or has failed for good."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.job import wire
from kubeloop.testing import Cluster
from tests.controllers.jobs import (
    INDEX,
    NAMESPACE,
    SECOND,
    active,
    bind,
    conditions,
    end_deleted,
    fail,
    indexes,
    job_events,
    of_index,
    pods,
    run,
    status,
    succeed,
)

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    return cluster


def indexed(completions: int, parallelism: int, name: str = "job", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "app", "image": "x"}]
    template = {"spec": {"containers": containers, "initContainers": [_INIT], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "completionMode": "Indexed",
            "completions": completions,
            "parallelism": parallelism,
            "template": template,
            **spec,
        },
    }


_INIT = {"name": "init", "image": "x", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}


def annotation(pod: Pod, name: str) -> str | None:
    found: str | None = pod.metadata.annotations.get(name)
    return found


def test_pod_has_its_completion_index(plane: Cluster) -> None:
    plane.add(indexed(3, 3))
    plane.advance(SECOND)
    found = pods(plane)
    assert indexes(found) == [0, 1, 2]
    pod = of_index(found, 1)
    assert pod.metadata.labels[INDEX] == "1"
    assert pod.metadata.generate_name == "job-1-"
    assert pod.spec.hostname == "job-1"
    (container,) = pod.spec.containers or ()
    (variable,) = codec.to_plain(container.env)
    path = f"metadata.labels['{INDEX}']"
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == path
    assert pod.spec.init_containers[0].env[0].value == "mine", "what the user says stays"
    assert FAILURES not in pod.metadata.annotations


def test_indexes_are_processed_in_order_and_reported_as_ranges(plane: Cluster) -> None:
    plane.add(indexed(10, 5))
    plane.advance(SECOND)
    found = active(plane)
    assert indexes(found) == [0, 1, 2, 3, 4]
    succeed(plane, *(of_index(found, index) for index in (0, 2, 3, 4)))
    plane.advance(SECOND)
    assert status(plane) == {"active": 5, "succeeded": 4, "completedIndexes": "0,2-4"}
    assert indexes(active(plane)) == [1, 5, 6, 7, 8]
    succeed(plane, *active(plane))
    plane.advance(SECOND)
    succeed(plane, *active(plane))
    plane.advance(SECOND)
    assert status(plane) == {"succeeded": 10, "completedIndexes": "0-9"}
    assert conditions(plane)["Complete"][1] == "CompletionsReached"


def test_failed_index_is_retried(plane: Cluster) -> None:
    plane.add(indexed(2, 2))
    plane.advance(SECOND)
    fail(plane, of_index(active(plane), 1))
    plane.advance(11)
    assert indexes(active(plane)) == [0, 1]
    assert status(plane) == {"active": 2, "failed": 1}


def test_duplicate_pod_of_an_index_is_deleted(plane: Cluster) -> None:
    plane.add(indexed(2, 2))
    plane.advance(SECOND)
    twin = of_index(pods(plane), 0)
    copy = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "twin",
            "namespace": NAMESPACE,
            "labels": dict(twin.metadata.labels),
            "annotations": dict(twin.metadata.annotations),
        },
        "spec": {"containers": [{"name": "app", "image": "x"}], "restartPolicy": "Never"},
    }
    plane.client.create(copy)
    plane.advance(SECOND)
    assert indexes(active(plane)) == [0, 1]
    assert status(plane) == {"active": 2}


def test_indexed_job_can_change_parallelism_and_completions_together(plane: Cluster) -> None:
    plane.add(indexed(3, 3))
    plane.advance(SECOND)
    plane.client.patch(Job, "job", {"spec": {"completions": 5, "parallelism": 5}}, NAMESPACE)
    plane.advance(SECOND)
    assert indexes(active(plane)) == [0, 1, 2, 3, 4]
    succeed(plane, of_index(active(plane), 4), of_index(active(plane), 0))
    plane.advance(SECOND)
    assert status(plane) == {"active": 3, "succeeded": 2, "completedIndexes": "0,4"}
    plane.client.patch(Job, "job", {"spec": {"completions": 2, "parallelism": 2}}, NAMESPACE)
    plane.advance(SECOND)
    assert status(plane) == {"active": 1, "succeeded": 1, "completedIndexes": "0"}
    assert indexes(active(plane)) == [1]
    succeed(plane, *active(plane))
    plane.advance(SECOND)
    assert status(plane) == {"succeeded": 2, "completedIndexes": "0,1"}
    assert "Complete" in conditions(plane)


def test_success_policy_completes_a_job_early(plane: Cluster) -> None:
    plane.add(indexed(4, 4, successPolicy={"rules": [{"succeededIndexes": "3"}, {"succeededCount": 2}]}))
    plane.advance(SECOND)
    bind(plane, *pods(plane))
    run(plane, *pods(plane))
    succeed(plane, *(of_index(pods(plane), index) for index in (0, 1)))
    plane.advance(SECOND)
    met = ("True", "SuccessPolicy", "Matched rules at index 1")
    assert conditions(plane) == {"SuccessCriteriaMet": met}, "pods that still end are waited for"
    assert status(plane) == {"succeeded": 2, "completedIndexes": "0,1", "terminating": 2}
    end_deleted(plane)
    plane.advance(SECOND)
    assert conditions(plane) == {"SuccessCriteriaMet": met, "Complete": met}
    assert status(plane) == {"succeeded": 2, "completedIndexes": "0,1"}, "what was stopped has not failed"
    assert job_events(plane)[-1] == "Normal Completed: Job completed"


# Limits of single indexes.


def test_backoff_limit_per_index_fails_one_index(plane: Cluster) -> None:
    plane.add(indexed(3, 3, backoffLimitPerIndex=1))
    plane.advance(SECOND)
    assert annotation(of_index(pods(plane), 0), FAILURES) == "0"
    fail(plane, of_index(active(plane), 0))
    plane.advance(SECOND)
    assert status(plane) == {"active": 2, "failedIndexes": ""}, "the failed pod is kept until another takes over"
    plane.advance(10)
    assert status(plane) == {"active": 3, "failed": 1, "failedIndexes": ""}
    second = of_index(active(plane), 0)
    assert annotation(second, FAILURES) == "1"
    fail(plane, second)
    plane.advance(minutes=11)
    assert status(plane) == {"active": 2, "failed": 2, "failedIndexes": "0"}
    succeed(plane, *active(plane))
    plane.advance(SECOND)
    assert status(plane) == {"succeeded": 2, "failed": 2, "failedIndexes": "0", "completedIndexes": "1,2"}
    assert conditions(plane)["Failed"] == ("True", "FailedIndexes", "Job has failed indexes")


def test_each_index_has_its_own_backoff(plane: Cluster) -> None:
    plane.add(indexed(2, 2, backoffLimitPerIndex=5))
    plane.advance(SECOND)
    fail(plane, of_index(active(plane), 0))
    plane.advance(11)
    fail(plane, of_index(active(plane), 0))
    plane.advance(5)
    fail(plane, of_index(active(plane), 1))
    plane.advance(10.5)
    assert indexes(active(plane)) == [1], "index 0 waits for twenty seconds, index 1 for ten"
    plane.advance(6)
    assert indexes(active(plane)) == [0, 1]


def test_max_failed_indexes_fails_the_job(plane: Cluster) -> None:
    plane.add(indexed(5, 5, backoffLimitPerIndex=0, maxFailedIndexes=1))
    plane.advance(SECOND)
    fail(plane, of_index(active(plane), 0))
    plane.advance(SECOND)
    assert not conditions(plane)
    fail(plane, of_index(active(plane), 3))
    plane.advance(SECOND)
    message = "Job has exceeded the specified maximal number of failed indexes"
    assert conditions(plane)["Failed"] == ("True", "MaxFailedIndexesExceeded", message)
    assert status(plane) == {"failed": 5, "failedIndexes": "0,3"}


def test_failure_policy_can_fail_an_index(plane: Cluster) -> None:
    rules = [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [4]}},
    ]
    plane.add(indexed(2, 2, backoffLimitPerIndex=5, podFailurePolicy={"rules": rules}))
    plane.advance(SECOND)
    fail(plane, of_index(active(plane), 0), code=3)
    fail(plane, of_index(active(plane), 1), code=4)
    plane.advance(15)
    assert status(plane) == {"active": 1, "failed": 1, "failedIndexes": "0"}
    replacement = of_index(active(plane), 1)
    assert (annotation(replacement, FAILURES), annotation(replacement, IGNORED)) == ("0", "1")
    fail(plane, replacement, code=9)
    plane.advance(minutes=1)
    replacement = of_index(active(plane), 1)
    assert (annotation(replacement, FAILURES), annotation(replacement, IGNORED)) == ("1", "1")


def test_terminating_index_is_not_replaced_with_replacement_policy_failed(plane: Cluster) -> None:
    plane.add(indexed(3, 2, podReplacementPolicy="Failed"))
    plane.advance(SECOND)
    found = pods(plane)
    bind(plane, *found)
    run(plane, *found)
    plane.client.delete(Pod, of_index(found, 0).metadata.name, NAMESPACE)
    plane.advance(20)
    assert indexes(active(plane)) == [1], "it holds its place"
    end_deleted(plane)
    fail(plane, of_index(pods(plane), 0))
    plane.advance(20)
    assert indexes(active(plane)) == [0, 1]


def test_index_beyond_completions_is_not_counted(plane: Cluster) -> None:
    plane.add(indexed(2, 2))
    plane.advance(SECOND)
    stray = of_index(pods(plane), 1)
    plane.client.patch(Pod, stray.metadata.name, {"metadata": {"annotations": {INDEX: "7"}}}, NAMESPACE)
    succeed(plane, stray)
    plane.advance(SECOND)
    assert status(plane) == {"active": 2}
    assert indexes(active(plane)) == [0, 1]


def test_long_names_are_truncated_for_the_index(plane: Cluster) -> None:
    name = "j" * 60
    plane.add(indexed(2, 1, name=name))
    plane.advance(SECOND)
    (pod,) = pods(plane, name=name)
    assert pod.metadata.generate_name == "j" * 55 + "-0-"
