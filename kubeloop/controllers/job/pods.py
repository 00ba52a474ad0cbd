# SPDX-License-Identifier: Apache-2.0
"""Properties of one of a job's pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import ContainerStatus, Pod
from kubeloop.api.pods.pod import ready_condition
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.job.names import COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, TRACKING

_LARGEST_COUNT = 2**31 - 1


def is_tracked(pod: Pod) -> bool:
    """Return True if the pod has the tracking finalizer."""
    return TRACKING in pod.metadata.finalizers


def has_failed(pod: Pod, job: Job) -> bool:
    """Return True if the pod counts as failed.

    A terminating pod counts, because it may never report its phase; not so if the job replaces only failed pods.
    """
    if pod.status.phase == "Failed":
        return True
    if job.spec.pod_replacement_policy == "Failed":
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def completion_index(pod: Pod) -> int | None:
    """Return the completion index; None if it is missing or invalid."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return _number(text)


def valid_index(pod: Pod, job: Job) -> int | None:
    """Return the completion index if it is below the job's completions, else None."""
    index = completion_index(pod)
    return index if index is not None and index < (job.spec.completions or 0) else None


def index_failures(pod: Pod) -> int:
    """Return the number of counted failures of the index before this pod."""
    return _count(pod.metadata.annotations.get(INDEX_FAILURES, ""))


def index_ignored_failures(pod: Pod) -> int:
    """Return the number of ignored failures of the index before this pod."""
    return _count(pod.metadata.annotations.get(INDEX_IGNORED_FAILURES, ""))


def all_index_failures(pod: Pod) -> int:
    """Return the number of all failures of the index before this pod."""
    return index_failures(pod) + index_ignored_failures(pod)


def finish_time(pod: Pod) -> datetime:
    """Return the end time by the best evidence: containers, readiness, deletion, creation."""
    return _containers_finish(pod) or _unready_since(pod) or _deleted_at(pod) or _created_at(pod)


def _containers_finish(pod: Pod) -> datetime | None:
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    relevant = [*pod.status.container_statuses]
    relevant += [one for one in pod.status.init_container_statuses if one.name in sidecars]
    moments = [_finish_of(one) for one in relevant]
    known = [one for one in moments if one is not None]
    return max(known) if known and len(known) == len(moments) else None


def _finish_of(container: ContainerStatus) -> datetime | None:
    ended = container.state.terminated if container.state is not None else None
    return parse_time(ended.finished_at) if ended is not None and ended.finished_at else None


def _unready_since(pod: Pod) -> datetime | None:
    ready = ready_condition(pod)
    if ready is None or ready.status != "False" or ready.last_transition_time is None:
        return None
    return parse_time(ready.last_transition_time)


def _deleted_at(pod: Pod) -> datetime | None:
    meta = pod.metadata
    if meta.deletion_timestamp is None:
        return None
    return parse_time(meta.deletion_timestamp) - timedelta(seconds=meta.deletion_grace_period_seconds or 0)


def _created_at(pod: Pod) -> datetime:
    created = pod.metadata.creation_timestamp
    assert created is not None  # set by the server
    return parse_time(created)


def count_restarts(pods: Iterable[Pod]) -> int:
    """Return the number of container restarts of running and pending pods."""
    return sum(
        container.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def _number(text: str) -> int | None:
    """Parse a non-negative decimal number as Go does."""
    if not text.removeprefix("+").isascii() or not text.removeprefix("+").isdigit():
        return None
    return int(text) if len(text) < 20 else None


def _count(text: str) -> int:
    number = _number(text)
    return number if number is not None and number <= _LARGEST_COUNT else 0
