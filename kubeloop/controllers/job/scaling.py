# SPDX-License-Identifier: Apache-2.0
"""Decides which pods a job creates and deletes to match its parallelism. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_ready, is_terminating, ready_since
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.job.indexes import Indexes
from kubeloop.controllers.job.pods import completion_index
from kubeloop.controllers.job.policy.backoff import index_seconds_left
from kubeloop.controllers.job.sync_context import IndexProgress, SyncContext, indexes_of, is_suspended

MAX_POD_CHANGES_PER_SYNC = 500  # pods that one sync creates or deletes, so that other jobs are not delayed

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class JobScalingPlan:
    """Pods to create or to delete, never both: deleted pods make room in a later sync."""

    delete: Sequence[Pod] = ()
    create: Sequence[int | None] = ()  # index of each pod; None in non-indexed jobs
    wait: float | None = None  # seconds until there is something to create
    action: str = field(default="tracking")  # label value of the metrics


def plan_pods(observed: SyncContext, now: datetime) -> JobScalingPlan:
    """Decide which pods to create or delete."""
    active = len(observed.active)
    if is_suspended(observed.job):
        return JobScalingPlan(delete=observed.active, action="pods_deleted")
    wanted = _wanted(observed)
    surplus = _surplus(observed, max(0, active - wanted))[:MAX_POD_CHANGES_PER_SYNC]
    if surplus:
        return JobScalingPlan(delete=surplus, action="pods_deleted")
    # If only failed pods are replaced, terminating pods occupy their place.
    blocked = observed.terminating if observed.job.spec.pod_replacement_policy == "Failed" else 0
    missing = wanted - blocked - active
    return _creation(observed, min(missing, MAX_POD_CHANGES_PER_SYNC), now) if missing > 0 else JobScalingPlan()


def _wanted(observed: SyncContext) -> int:
    spec = observed.job.spec
    parallelism = spec.parallelism or 0
    if spec.completions is None:  # a work queue: after the first success, running pods may finish
        return len(observed.active) if observed.succeeded > 0 else parallelism
    return max(0, min(parallelism, spec.completions - observed.succeeded))


def _creation(observed: SyncContext, count: int, now: datetime) -> JobScalingPlan:
    own_limits = observed.job.spec.backoff_limit_per_index is not None
    wait = 0.0 if own_limits else observed.failures.seconds_left(now)
    if wait > 0:
        return JobScalingPlan(wait=wait, action="pods_created")
    if observed.indexes is None:
        return JobScalingPlan(create=(None,) * count, action="pods_created")
    indexes = list(
        islice(_indexes_without_need(observed, observed.indexes).missing(observed.job.spec.completions or 0), count)
    )
    if not own_limits:
        return JobScalingPlan(create=indexes, action="pods_created")
    kept = observed.indexes.kept_for_replacement or {}
    waits = {index: index_seconds_left(kept.get(index), now) for index in indexes}
    due = [index for index in indexes if waits[index] <= 0]
    if due or not indexes:
        return JobScalingPlan(create=due, wait=_shortest(waits), action="pods_created")
    return JobScalingPlan(wait=min(waits.values()), action="pods_created")


def _shortest(waits: dict[int, float]) -> float | None:
    return min((wait for wait in waits.values() if wait > 0), default=None)


def _indexes_without_need(observed: SyncContext, indexes: IndexProgress) -> Indexes:
    """Return all indexes that need no pod."""
    busy = indexes.succeeded | indexes_of(observed.active)
    if indexes.failed is not None:
        busy |= indexes.failed
    if observed.job.spec.pod_replacement_policy == "Failed":
        busy |= indexes_of(filter(is_terminating, observed.pods))
    return busy


def _surplus(observed: SyncContext, at_least: int) -> list[Pod]:
    """Return the pods to delete: those with an invalid or duplicate index, then the cheapest ones."""
    if observed.indexes is None:
        return _least_first(observed.active, at_least)
    completions = observed.job.spec.completions or 0
    going: list[Pod] = []
    staying: list[Pod] = []
    by_index = sorted(observed.active, key=_index_key)
    for index, pods in groupby(by_index, key=_index_key):
        same = list(pods)
        *others, last = _least_first(same, len(same)) if len(same) > 1 else same
        going += others
        (staying if 0 <= index < completions else going).append(last)
    return going + _least_first(staying, at_least - len(going))


def _index_key(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _least_first(pods: Sequence[Pod], count: int) -> list[Pod]:
    """Sort by deletion cost: unassigned, pending, unready, briefly ready, restarted, young first."""
    return sorted(pods, key=_rank)[:count] if count > 0 else []


def _rank(pod: Pod) -> tuple[bool, int, bool, float, int, int, float]:
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    status = pod.status
    steady = max((one.restart_count for one in status.container_statuses), default=0)
    aside = max((one.restart_count for one in status.init_container_statuses if one.name in sidecars), default=0)
    since, created = ready_since(pod) if is_ready(pod) else None, pod.metadata.creation_timestamp
    return (
        bool(pod.spec.node_name),
        _PHASES.get(status.phase, 0),
        is_ready(pod),
        -since.timestamp() if since is not None else float("-inf"),
        -steady,
        -aside,
        -parse_time(created).timestamp() if created is not None else float("-inf"),
    )
