# SPDX-License-Identifier: Apache-2.0
"""Tests of the status of a replica set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubeloop.api.generated.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus
from kubeloop.api.generated.core_v1 import Pod, PodCondition, PodStatus, PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.replicaset.pod_class import group_by_class
from kubeloop.controllers.replicaset.status import (
    ReplicaCounts,
    count_replicas,
    failure_reason,
    seconds_until_next_available,
    status_patch,
)

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
STAMP = Time("2026-01-01T01:00:00Z")
NONE = ReplicaCounts(0, 0, 0, 0, 0)


def pod(ready_at: str | None = None, **labels: str) -> Pod:
    conditions = ()
    if ready_at is not None:
        conditions = (PodCondition(type="Ready", status="True", last_transition_time=Time(ready_at)),)
    return Pod(metadata=ObjectMeta(labels=labels), status=PodStatus(conditions=conditions))


def replica_set(replicas: int = 2, wait: int = 0, **status: Any) -> ReplicaSet:
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "a", "tier": "web"}))
    return ReplicaSet(
        metadata=ObjectMeta(name="a", uid="u", generation=3),
        spec=ReplicaSetSpec(replicas=replicas, min_ready_seconds=wait, template=template),
        status=ReplicaSetStatus(observed_generation=3, terminating_replicas=0, **status),
    )


def patch_of(owner: ReplicaSet, counts: ReplicaCounts, failure: str | None = None) -> Any:
    return status_patch(owner, counts, failure, ReplicaSetCondition, NOW)


def test_each_pod_counts_by_its_state() -> None:
    pods = [
        pod(app="a", tier="web"),
        pod("2026-01-01T00:59:00Z", app="a", tier="web", more="too"),
        pod("2026-01-01T00:59:50Z", app="a"),
    ]
    assert count_replicas(replica_set(wait=30), group_by_class(*pods), 4, NOW) == ReplicaCounts(3, 2, 2, 1, 4)
    assert count_replicas(replica_set(), group_by_class(*pods, *pods), None, NOW) == ReplicaCounts(6, 4, 4, 4, None)


def test_next_availability_is_of_the_longest_ready_pod() -> None:
    pods = group_by_class(pod("2026-01-01T00:59:00Z"), pod("2026-01-01T00:59:50Z"), pod("2026-01-01T00:59:55Z"), pod())
    assert seconds_until_next_available(pods, 30, NOW) == 20
    assert seconds_until_next_available(pods, 0, NOW) is None
    assert seconds_until_next_available(group_by_class(pod("2026-01-01T00:59:00Z"), pod("")), 30, NOW) is None


def test_unchanged_status_is_not_written() -> None:
    assert patch_of(replica_set(), NONE) is None


def test_all_counts_are_written_on_a_change() -> None:
    patch = patch_of(replica_set(), ReplicaCounts(2, 2, 1, 0, 0))
    assert patch["metadata"] == {"uid": "u"}
    assert patch["status"] == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 0,
        "terminatingReplicas": 0,
        "observedGeneration": 3,
    }


def test_new_generation_is_written_with_unchanged_counts() -> None:
    owner = ReplicaSet(metadata=ObjectMeta(generation=2), status=ReplicaSetStatus(observed_generation=1))
    patch = patch_of(owner, ReplicaCounts(0, 0, 0, 0, None))
    assert patch["status"]["observedGeneration"] == 2


def test_failure_condition_is_set_once_and_removed() -> None:
    (told,) = patch_of(replica_set(), NONE, "no room")["status"]["conditions"]
    assert told == {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "no room",
        "lastTransitionTime": STAMP,
    }
    failed = replica_set(conditions=(ReplicaSetCondition(type="ReplicaFailure", status="True", message="no room"),))
    assert patch_of(failed, NONE, "still no room") is None
    over = patch_of(failed, NONE)["status"]["conditions"]
    assert over == [{"$patch": "delete", "type": "ReplicaFailure"}]


@pytest.mark.parametrize(("replicas", "reason"), [(1, "FailedCreate"), (2, ""), (3, "FailedDelete")])
def test_failure_reason_is_the_operation(replicas: int, reason: str) -> None:
    assert failure_reason(replicas, 2) == reason
