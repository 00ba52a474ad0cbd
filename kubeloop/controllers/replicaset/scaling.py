# SPDX-License-Identifier: Apache-2.0
"""Computes the surplus of a set and chooses the pods to delete. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_ready
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.replicaset.pod_class import Pods
from kubeloop.controllers.shared.pods.deletion_order import RankProperties, lowest_ranked
from kubeloop.runtime.informer.equivalence_groups import EquivalenceGroups

BURST_REPLICAS: Final = 500  # creates or deletes per sync; the next ones wait until the cache shows these


def surplus(active: int, wanted: int) -> int:
    """Return the number of surplus pods, negative if some are missing, limited to the burst size."""
    return max(-BURST_REPLICAS, min(BURST_REPLICAS, active - wanted))


def pods_per_node(related: Iterable[EquivalenceGroups]) -> Counter[str]:
    """Count the active pods on each node over all sets of the same owner, so that they spread."""
    on_node: Counter[str] = Counter()
    for pods in related:
        for look, alike in pods.items():
            if look.state == "active":
                on_node[look.rank.node] += len(alike)
    return on_node


def pods_to_delete(active: Pods, crowding: Mapping[str, int], count: int, now: datetime) -> list[Pod]:
    """Choose `count` active pods by deletion rank."""
    by_standing: dict[RankProperties, list[Pod]] = {}
    for look, alike in active.items():
        by_standing.setdefault(look.rank, []).extend(alike)
    return lowest_ranked(by_standing, crowding, count, now)


def age_ratios(chosen: Iterable[Pod], active: Pods, now: datetime) -> Iterator[float]:
    """Return each deleted ready pod's age relative to the youngest ready pod; a metric of the ranking."""
    ready = (look.rank for look in active if look.rank.ready)
    youngest = min((_age(one.created, now) for one in ready), default=0.0)
    if youngest > 0:
        yield from (_age(pod.metadata.creation_timestamp, now) / youngest for pod in chosen if is_ready(pod))


def _age(created: str | None, now: datetime) -> float:
    return (now - parse_time(created)).total_seconds() if created else 0.0
