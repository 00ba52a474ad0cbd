# SPDX-License-Identifier: Apache-2.0
"""Rolling update: scales the new replica set up and the old ones down, within the deployment's limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.controllers.deployment.limits import max_replicas, min_available
from kubeloop.controllers.deployment.replica_sets import (
    ReplicaSets,
    Scaling,
    desired_replicas,
    replicas_of,
    total_replicas,
)


def new_replicas(deployment: Deployment, family: ReplicaSets) -> int:
    """Return the size that the new replica set may have now, also if it is yet to be created."""
    wanted = desired_replicas(deployment)
    present = 0 if family.new is None else replicas_of(family.new)
    if present >= wanted:
        return wanted
    room = max_replicas(deployment) - total_replicas(family.all)
    return min(present + max(room, 0), wanted)


def plan_scale_down(deployment: Deployment, family: ReplicaSets) -> list[Scaling]:
    """Scale down old replica sets: first pods that are unavailable and would block the rollout, then surplus ones.

    Unavailable pods of the new replica set count as required, so that they don't cause more removals of old pods.
    """
    old = family.active_old
    unavailable = (
        0
        if family.new is None
        else replicas_of(family.new) - _available_after_scale(family.new, replicas_of(family.new))
    )
    spare = total_replicas(family.all) - min_available(deployment) - unavailable
    if not old or spare <= 0:
        return []
    sizes = _without_unhealthy(old, spare)
    sizes = _without_surplus(deployment, family, old, sizes)
    return [Scaling(one, size) for one, size in zip(old, sizes, strict=True) if size != replicas_of(one)]


def _without_unhealthy(old: Iterable[ReplicaSet], spare: int) -> list[int]:
    sizes = []
    for one in old:
        size = replicas_of(one)
        removed = min(spare, size - _available_after_scale(one, size))
        sizes.append(size - removed)
        spare -= removed
    return sizes


def _without_surplus(
    deployment: Deployment, family: ReplicaSets, old: Iterable[ReplicaSet], sizes: list[int]
) -> list[int]:
    pairs = list(zip(old, sizes, strict=True))
    available = sum(_available_after_scale(one, size) for one, size in pairs)
    if family.new is not None:
        available += _available_after_scale(family.new, replicas_of(family.new))
    surplus = available - min_available(deployment)
    kept = []
    for _, size in pairs:
        removed = min(size, max(surplus, 0))
        kept.append(size - removed)
        surplus -= removed
    return kept


def _available_after_scale(replica_set: ReplicaSet, size: int) -> int:
    """Return the number of available pods that remain at that size, since unavailable ones are removed first."""
    return min(replica_set.status.available_replicas, size)
