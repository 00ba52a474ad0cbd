# SPDX-License-Identifier: Apache-2.0
"""Tests of job policies for pods and indexes, and of the backoff."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.batch_v1 import PodFailurePolicy, SuccessPolicy
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.scalars.times import format_time
from kubeloop.controllers.job.indexes import Indexes
from kubeloop.controllers.job.pods import finish_time
from kubeloop.controllers.job.policy.backoff import BackoffRecord, index_seconds_left
from kubeloop.controllers.job.policy.failure_policy import match_failure_policy
from kubeloop.controllers.job.policy.success_policy import match_success_policy

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def exited(code: int | None, name: str = "main", at: datetime = NOW) -> dict[str, Any]:
    state = {} if code is None else {"terminated": {"exitCode": code, "finishedAt": format_time(at)}}
    return {"name": name, "state": state}


def pod(*containers: dict[str, Any], inits: Any = (), conditions: Any = (), **metadata: Any) -> Pod:
    status = {"phase": "Failed", "containerStatuses": list(containers), "initContainerStatuses": list(inits)}
    said = [{"type": kind, "status": value} for kind, value in conditions]
    meta = {"name": "p", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return codec.from_plain({"metadata": meta, "status": {**status, "conditions": said}}, Pod)


def policy(*rules: dict[str, Any]) -> PodFailurePolicy:
    return codec.from_plain({"rules": list(rules)}, PodFailurePolicy)


def on_exit(action: str, operator: str, *values: int, name: str | None = None) -> dict[str, Any]:
    wanted: dict[str, Any] = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": wanted if name is None else {**wanted, "containerName": name}}


def on_condition(action: str, kind: str, status: str = "True") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": kind, "status": status}]}


@pytest.mark.parametrize(
    ("rules", "failed", "action", "message"),
    [
        ((), pod(exited(1)), "", ""),
        (
            (on_exit("FailJob", "In", 1, 2),),
            pod(exited(2)),
            "FailJob",
            "Container main for pod ns/p failed with exit code 2 matching FailJob rule at index 0",
        ),
        ((on_exit("FailJob", "In", 1, 2),), pod(exited(3)), "", ""),
        ((on_exit("Ignore", "NotIn", 1, 2),), pod(exited(3)), "Ignore", ""),
        ((on_exit("Ignore", "NotIn", 1, 2),), pod(exited(2)), "", ""),
        # Success is no failure, whatever the operator.
        ((on_exit("FailJob", "NotIn", 7),), pod(exited(0)), "", ""),
        # A running container has no exit code.
        ((on_exit("FailJob", "NotIn", 7),), pod(exited(None)), "", ""),
        ((on_exit("Count", "In", 5, name="side"),), pod(exited(5)), "", ""),
        ((on_exit("Count", "In", 5, name="side"),), pod(exited(0), exited(5, "side")), "Count", ""),
        # Init containers are looked at after the others.
        (
            (on_exit("FailJob", "In", 5),),
            pod(exited(0), inits=[exited(5, "prepare")]),
            "FailJob",
            "Container prepare for pod ns/p failed with exit code 5 matching FailJob rule at index 0",
        ),
        # The first rule that matches decides.
        ((on_exit("Ignore", "In", 1), on_exit("FailJob", "In", 1)), pod(exited(1)), "Ignore", ""),
        ((on_exit("What", "In", 1), on_exit("FailIndex", "In", 1)), pod(exited(1)), "FailIndex", ""),
        (
            (on_exit("Ignore", "In", 9), on_condition("FailJob", "DisruptionTarget")),
            pod(exited(1), conditions=[("Ready", "False"), ("DisruptionTarget", "True")]),
            "FailJob",
            "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 1",
        ),
        (
            (on_condition("Ignore", "DisruptionTarget"),),
            pod(exited(1), conditions=[("DisruptionTarget", "False")]),
            *("", ""),
        ),
    ],
)
def test_first_matching_rule_decides(rules: Any, failed: Pod, action: str, message: str) -> None:
    assert match_failure_policy(policy(*rules), failed) == (action, message)


def test_only_ignored_failures_do_not_count() -> None:
    counted = {
        action: match_failure_policy(policy(on_exit(action, "In", 1)), pod(exited(1))).counts_towards_limit
        for action in ("Ignore", "Count", "FailIndex", "FailJob")
    }
    assert counted == {"Ignore": False, "Count": True, "FailIndex": True, "FailJob": True}
    assert match_failure_policy(None, pod(exited(1))).counts_towards_limit


@pytest.mark.parametrize(
    ("rules", "succeeded", "met"),
    [
        ([{"succeededCount": 2}], [0, 3], 0),
        ([{"succeededCount": 3}], [0, 3], None),
        ([{"succeededIndexes": "0,3"}], [0, 3], 0),
        ([{"succeededIndexes": "0-3"}], [0, 3], None),
        ([{"succeededIndexes": "0-3", "succeededCount": 2}], [0, 3, 9], 0),
        ([{"succeededIndexes": "0-3", "succeededCount": 2}], [3, 8, 9], None),
        ([{"succeededIndexes": "5"}, {"succeededIndexes": "3"}], [0, 3], 1),
        ([{"succeededIndexes": "nonsense"}, {"succeededCount": 1}], [0], 1),
        ([{"succeededCount": 0}], [], None),
    ],
)
def test_success_by_count_or_by_indexes(rules: list[dict[str, Any]], succeeded: list[int], met: int | None) -> None:
    said = codec.from_plain({"rules": rules}, SuccessPolicy)
    assert match_success_policy(said, 10, Indexes.of(succeeded)) == met
    assert match_success_policy(None, 10, Indexes.of(succeeded)) is None


def ended(seconds: int) -> Pod:
    return pod(exited(1, at=NOW + timedelta(seconds=seconds)))


@pytest.mark.parametrize(
    ("before", "succeeded", "failed", "count", "last"),
    [
        (BackoffRecord(), [], [], 0, None),
        (BackoffRecord(2, NOW), [], [], 2, 0),
        (BackoffRecord(2, NOW), [], [30, 10], 4, 30),
        (BackoffRecord(2, NOW), [10], [], 0, None),
        (BackoffRecord(2, NOW), [10], [5, 10], 0, None),
        (BackoffRecord(2, NOW), [10, 20], [5, 25, 30], 2, 30),
    ],
)
def test_consecutive_failures(before: BackoffRecord, succeeded: Any, failed: Any, count: int, last: int | None) -> None:
    after = before.with_finished([ended(one) for one in succeeded], [ended(one) for one in failed])
    assert after == BackoffRecord(count, None if last is None else NOW + timedelta(seconds=last))


@pytest.mark.parametrize(
    ("count", "pause"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (8, 600), (5000, 600)]
)
def test_backoff_doubles_up_to_ten_minutes(count: int, pause: float) -> None:
    assert BackoffRecord(count, NOW).seconds_left(NOW) == pause
    assert BackoffRecord(count, NOW).seconds_left(NOW + timedelta(seconds=5)) == max(0, pause - 5)
    assert BackoffRecord(count, NOW).seconds_left(NOW + timedelta(hours=1)) == 0


def test_index_backoff_uses_annotations_of_its_last_pod() -> None:
    counts = {
        "batch.kubernetes.io/job-index-failure-count": "1",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }
    assert index_seconds_left(None, NOW) == 0
    assert index_seconds_left(pod(exited(1), annotations=counts), NOW) == 40
    nonsense = {"batch.kubernetes.io/job-index-failure-count": "-7"}
    assert index_seconds_left(pod(exited(1), annotations=nonsense), NOW) == 10


def test_finish_time_uses_the_best_available_source() -> None:
    later = NOW + timedelta(seconds=9)
    assert finish_time(pod(exited(0), exited(1, "b", at=later))) == later
    unready = pod(exited(None), exited(1))
    assert finish_time(unready) == datetime(2026, 1, 1, tzinfo=UTC), "its creation, if nothing else is known"
    deleted = pod(deletionTimestamp=format_time(NOW), deletionGracePeriodSeconds=30)
    assert finish_time(deleted) == NOW - timedelta(seconds=30)
