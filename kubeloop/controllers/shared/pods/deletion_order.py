# SPDX-License-Identifier: Apache-2.0
"""Ranks an owner's active pods for deletion during a scale-down. Pure.

The first difference decides: unassigned before assigned, pending before unknown before running, unready before ready,
low before high deletion cost, crowded nodes before others, recently ready before long ready, more restarts before
fewer, young before old. Ages are compared by magnitude, so that among pods of similar age the choice is random.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import ready_condition
from kubeloop.api.scalars.times import parse_time

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_COST: Final = re.compile("0|-?[1-9][0-9]*|-0+[0-9]*")  # upstream's syntax: no plus sign, no leading zeros
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER: Final = -2  # a rank below that of any time

Rank = tuple[bool, int, bool, int, int, int, int, int, int]


class RankProperties(msgspec.Struct, frozen=True, gc=False):
    """Properties of a pod that determine its rank; pods with equal properties are ordered by UID."""

    node: str
    phase: int
    ready: bool
    cost: int
    ready_since: str
    restarts: int
    sidecar_restarts: int
    created: str


def rank_properties(pod: Pod) -> RankProperties:
    """Return the ranking properties of a pod."""
    regular, sidecars = _restarts(pod)
    condition = ready_condition(pod)
    ready = condition is not None and condition.status == "True"
    return RankProperties(
        node=pod.spec.node_name or "",
        phase=_PHASES.get(pod.status.phase, 0),
        ready=ready,
        cost=deletion_cost(pod),
        ready_since=(condition.last_transition_time or "") if condition is not None and ready else "",
        restarts=regular,
        sidecar_restarts=sidecars,
        created=pod.metadata.creation_timestamp or "",
    )


def lowest_ranked(
    pods: Mapping[RankProperties, Collection[Pod]], crowding: Mapping[str, int], count: int, now: datetime
) -> list[Pod]:
    """Return `count` pods in deletion order; `crowding` is the number of related pods on each node.

    The rank is computed once for all pods with equal properties; only those of the last rank are compared one by one.
    """
    ranked: dict[Rank, list[Collection[Pod]]] = {}
    for standing, alike in pods.items():
        ranked.setdefault(_rank(standing, crowding.get(standing.node, 0), now), []).append(alike)
    chosen: list[Pod] = []
    for rank in sorted(ranked):
        missing = count - len(chosen)
        if missing <= 0:
            break
        chosen += heapq.nsmallest(missing, chain.from_iterable(ranked[rank]), key=lambda pod: pod.metadata.uid)
    return chosen


def _rank(standing: RankProperties, crowding: int, now: datetime) -> Rank:
    return (
        bool(standing.node),
        standing.phase,
        standing.ready,
        standing.cost,
        -crowding,
        _magnitude(standing.ready_since, now) if standing.ready else 0,
        -standing.restarts,
        -standing.sidecar_restarts,
        _magnitude(standing.created, now),
    )


def deletion_cost(pod: Pod) -> int:
    """Return the pod's deletion cost; 0 if the annotation is missing or invalid."""
    text = (pod.metadata.annotations or {}).get(DELETION_COST, "")
    if not text or not _COST.fullmatch(text):
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0


def _restarts(pod: Pod) -> tuple[int, int]:
    """Return the highest restart count of the containers, and of the sidecars."""
    regular = max([one.restart_count for one in pod.status.container_statuses], default=0)
    if not pod.status.init_container_statuses:
        return regular, 0
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    return regular, max(
        (one.restart_count for one in pod.status.init_container_statuses if one.name in sidecars), default=0
    )


def _magnitude(moment: str, now: datetime) -> int:
    """Return the age as a power of two of nanoseconds."""
    if not moment:
        return _NEVER
    nanoseconds = (now - parse_time(moment)) // timedelta(microseconds=1) * 1000
    return nanoseconds.bit_length() - 1 if nanoseconds > 0 else -1
