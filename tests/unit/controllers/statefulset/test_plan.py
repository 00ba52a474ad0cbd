# SPDX-License-Identifier: Apache-2.0
"""Tests of StatefulSet decisions with plain values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import (
    ControllerRevision,
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetStatus,
    StatefulSetUpdateStrategy,
)
from kubeloop.api.generated.core_v1 import Pod, PodCondition, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.statefulset.history import Rollout
from kubeloop.controllers.statefulset.identity import new_pod
from kubeloop.controllers.statefulset.plan import decide, members_of
from kubeloop.controllers.statefulset.rolling_update import max_unavailable
from kubeloop.controllers.statefulset.status import complete_update, status_of, status_patch
from kubeloop.testing import stateful_set

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = Time("2025-01-01T00:00:00Z")
OLD, NEW = "web-old", "web-new"


def given_set(policy: str = "OrderedReady", replicas: int = 3, limit: Any = None, **spec: Any) -> StatefulSet:
    rolling = RollingUpdateStatefulSetStrategy(partition=spec.pop("partition", 0), max_unavailable=limit)
    strategy = StatefulSetUpdateStrategy(type="RollingUpdate", rolling_update=rolling)
    return stateful_set("web", replicas=replicas, pod_management_policy=policy, update_strategy=strategy, **spec)


def rollout(set: StatefulSet, update: str = NEW) -> Rollout:
    template = set.spec.template
    current, newer = (ControllerRevision(metadata=ObjectMeta(name=name)) for name in (OLD, update))
    return Rollout(current, newer, template, template, 0)


def member(set: StatefulSet, ordinal: int, state: str = "ready", revision: str = NEW) -> Pod:
    made = new_pod(set, set.spec.template, ordinal, revision)
    phase = {"ready": "Running", "unready": "Running", "going": "Running"}.get(state, state)
    ready = PodCondition(type="Ready", status="True" if state in ("ready", "going") else "False")
    status = PodStatus(phase=phase, conditions=(replace(ready, last_transition_time=LONG_AGO),))
    gone = LONG_AGO if state == "going" else None
    return replace(made, status=status, metadata=replace(made.metadata, uid=f"{ordinal}", deletion_timestamp=gone))


def next_steps(set: StatefulSet, *pods: Pod) -> list[tuple[str, str]]:
    """All steps of the plan in a row, as (act, pod)."""
    found = rollout(set)
    plan = decide(set, found, members_of(set, found, pods), lambda _: None, NOW)
    steps = [step for stage in plan.stages for work in stage.work for step in work]
    return [(step.action.name.lower(), step.pod.metadata.name) for step in steps]


@pytest.mark.parametrize("state", ["unready", "going", "Pending"])
def test_ordered_pods_wait_for_an_unavailable_predecessor(state: str) -> None:
    set = given_set()
    assert next_steps(set, member(set, 0, state)) == []


def test_first_missing_pod_is_created_alone() -> None:
    set = given_set()
    assert next_steps(set, member(set, 0), member(set, 2)) == [("create", "web-1")]


def test_all_missing_pods_are_created_in_parallel() -> None:
    set = given_set("Parallel")
    assert next_steps(set, member(set, 1, "unready")) == [("create", "web-0"), ("create", "web-2")]


@pytest.mark.parametrize("state", ["Failed", "Succeeded"])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_terminated_pod_is_deleted(policy: str, state: str) -> None:
    set = given_set(policy, replicas=1)
    assert next_steps(set, member(set, 0, state)) == [("delete", "web-0")]


def test_condemned_pods_are_deleted_one_at_a_time_or_in_parallel() -> None:
    for policy, gone in (("OrderedReady", ["web-4"]), ("Parallel", ["web-4", "web-3", "web-2"])):
        set = given_set(policy, replicas=2)
        pods = [member(set, number) for number in range(5)]
        assert next_steps(set, *pods) == [("delete", name) for name in gone]


def test_stateful_set_being_deleted_is_unchanged() -> None:
    set = given_set()
    going = replace(set, metadata=replace(set.metadata, deletion_timestamp=LONG_AGO))
    assert next_steps(going) == []


def test_pod_with_an_invalid_ordinal_is_ignored() -> None:
    set = given_set(replicas=0)
    strange = member(set, 0)
    strange = replace(strange, metadata=replace(strange.metadata, name="web-99999999999"))
    assert next_steps(set, strange) == []


@pytest.mark.parametrize(
    ("limit", "partition", "states", "gone"),
    [
        (None, 0, "oooo", "3"),
        (2, 0, "oooo", "32"),
        (2, 3, "oooo", "3"),
        (2, 4, "oooo", ""),
        (2, 0, "ooon", "21"),
        (4, 0, "onon", "20"),
        ("50%", 0, "oooo", "32"),
    ],
)
def test_old_pods_are_deleted_from_the_highest_within_the_limit(
    limit: Any, partition: int, states: str, gone: str
) -> None:
    for policy in ("OrderedReady", "Parallel"):
        set = given_set(policy, 4, limit, partition=partition)
        pods = [member(set, number, revision=OLD if one == "o" else NEW) for number, one in enumerate(states)]
        assert next_steps(set, *pods) == [("delete", f"web-{ordinal}") for ordinal in gone]


def test_parallel_update_deletes_unhealthy_old_pods_first() -> None:
    set = given_set("Parallel", 4, 2)
    ill = member(set, 0, "unready", OLD)
    pods = [ill, *(member(set, number, revision=OLD) for number in range(1, 4))]
    assert next_steps(set, *pods) == [("delete", "web-0"), ("delete", "web-3")]


@pytest.mark.parametrize(("limit", "replicas", "expected"), [(None, 5, 1), (3, 5, 3), ("50%", 5, 2), ("1%", 5, 1)])
def test_limit_is_at_least_one(limit: Any, replicas: int, expected: int) -> None:
    assert max_unavailable(given_set(replicas=replicas, limit=limit)) == expected


def test_missing_pods_below_the_partition_use_the_current_revision() -> None:
    set = given_set(replicas=3, partition=2)
    made = members_of(set, rollout(set), []).replicas
    assert [one.metadata.labels["controller-revision-hash"] for one in made] == [OLD, OLD, NEW]


def test_update_is_complete_when_all_pods_are_updated_and_ready() -> None:
    set = given_set(replicas=2)
    pods = [member(set, 0), member(set, 1)]
    status = complete_update(set, status_of(set, rollout(set), pods, NOW))
    assert (status.current_revision, status.update_revision, status.current_replicas) == (NEW, NEW, 2)
    unfinished = complete_update(set, status_of(set, rollout(set), [pods[0], member(set, 1, "unready")], NOW))
    assert (unfinished.current_revision, unfinished.current_replicas) == (OLD, 0)


def test_unchanged_status_is_not_written() -> None:
    set = given_set(replicas=1)
    status = status_of(set, rollout(set), [member(set, 0)], NOW)
    assert status_patch(replace(set, status=status), status) is None
    counted = replace(set, status=StatefulSetStatus(replicas=5, updated_replicas=5))
    patch = status_patch(counted, replace(status, updated_replicas=0))
    assert patch is not None
    assert patch["status"]["updatedReplicas"] is None
    assert patch["status"]["replicas"] == 1
