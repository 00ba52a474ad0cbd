# SPDX-License-Identifier: Apache-2.0
"""Computes a set's status: counts of its pods and failures to create or delete them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.api.selectors import selector_from_set
from kubeloop.controllers.replicaset.pod_class import PodClass, Pods, count_pods, select_pods

FAILURE: Final = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Counts of a set's pods."""

    replicas: int
    fully_labeled: int
    ready: int
    available: int
    terminating: int | None  # None if the kind has no such field


def count_replicas(owner: Any, active: Pods, terminating: int | None, now: datetime) -> ReplicaCounts:
    """Count the active pods."""
    wait = owner.spec.min_ready_seconds
    labeled = count_pods(select_pods(active, selector_from_set(owner.spec.template.metadata.labels)))
    ready = available = 0
    for look, alike in active.items():
        if look.rank.ready:
            ready += len(alike)
            if wait <= 0 or _seconds_left(look, wait, now) <= 0:
                available += len(alike)
    return ReplicaCounts(count_pods(active), labeled, ready, available, terminating)


def seconds_until_next_available(active: Pods, wait: int, now: datetime) -> float | None:
    """Return the seconds until the next ready pod becomes available; None if there is no such pod."""
    if wait <= 0:
        return None
    left = (_seconds_left(look, wait, now) for look in active if look.rank.ready)
    return min((one for one in left if 0 < one < math.inf), default=None)


def _seconds_left(look: PodClass, wait: int, now: datetime) -> float:
    """Return the seconds that a ready pod must stay ready; infinite if it has no transition time."""
    if not look.rank.ready_since:
        return math.inf
    return wait - (now - parse_time(look.rank.ready_since)).total_seconds()


def failure_reason(replicas: int, wanted: int) -> str:
    """Return the reason of a failure, derived from the counts before it."""
    if replicas < wanted:
        return "FailedCreate"
    return "FailedDelete" if replicas > wanted else ""


def status_patch(
    owner: Any, counts: ReplicaCounts, failure: str | None, condition: Callable[..., Any], now: datetime
) -> dict[str, Any] | None:
    """Build a strategic merge patch of the status; None if it is up to date.

    All counts are written together, so that a reader never sees a mix of old and new ones. A reported failure is not
    reported again with another message until it is resolved.
    """
    meta, before = owner.metadata, owner.status
    status: dict[str, Any] = {
        "replicas": counts.replicas,
        "fullyLabeledReplicas": counts.fully_labeled,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "observedGeneration": meta.generation,
    }
    if counts.terminating is not None:
        status["terminatingReplicas"] = counts.terminating
    told = find_condition(before.conditions, FAILURE)
    unchanged = before.observed_generation == meta.generation and _counts_of(before) == counts
    if unchanged and (told is None) is (failure is None):
        return None
    if failure is not None and told is None:
        new = condition(
            type=FAILURE,
            status="True",
            reason=failure_reason(counts.replicas, owner.spec.replicas),
            message=failure,
            last_transition_time=Time(format_time(now)),
        )
        status["conditions"] = [codec.to_plain(new)]
    elif failure is None and told is not None:
        status["conditions"] = [{"$patch": "delete", "type": FAILURE}]
    return {"metadata": {"uid": meta.uid}, "status": status}


def _counts_of(status: Any) -> ReplicaCounts:
    return ReplicaCounts(
        status.replicas,
        status.fully_labeled_replicas,
        status.ready_replicas,
        status.available_replicas,
        getattr(status, "terminating_replicas", None),
    )
