# SPDX-License-Identifier: Apache-2.0
"""Scales a deployment: distributes a change of its size over the replica sets in proportion. Pure.

Scaling during a rollout neither speeds it up nor delays it. Replica sets record in annotations the deployment size
for which they were last scaled; a difference reveals a scaling event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.controllers.deployment.limits import ROLLING, max_replicas
from kubeloop.controllers.deployment.replica_sets import (
    ReplicaSets,
    Scaling,
    age_rank,
    desired_replicas,
    replicas_of,
    total_replicas,
)

DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
_INT32_MAX: Final = 2**31 - 1


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Build the desired-replicas and max-replicas annotations of a replica set."""
    return {DESIRED_REPLICAS: str(desired_replicas(deployment)), MAX_REPLICAS: str(max_replicas(deployment))}


def is_scaling_event(deployment: Deployment, family: ReplicaSets) -> bool:
    """Return True if the deployment's size differs from the one for which its replica sets were scaled."""
    wanted = desired_replicas(deployment)
    return any(known not in (None, wanted) for known in (_count(one, DESIRED_REPLICAS) for one in family.active))


def plan_scale(deployment: Deployment, family: ReplicaSets) -> list[Scaling]:
    """Return the replica sets to scale, or to annotate with the new size."""
    only = _only_active_or_newest(family)
    if only is not None:
        wanted = desired_replicas(deployment)
        known = _count(only, DESIRED_REPLICAS)
        return [] if replicas_of(only) == wanted and known in (None, wanted) else [Scaling(only, wanted)]
    if is_saturated(deployment, family.new):  # others must have been adopted
        return [Scaling(one, 0) for one in family.active_old]
    if deployment.spec.strategy.type != ROLLING:
        return []
    plan = _in_proportion(deployment, family.active)
    return [one for one in plan if one.replicas != replicas_of(one.replica_set) or _is_outdated(deployment, one)]


def is_saturated(deployment: Deployment, replica_set: ReplicaSet | None) -> bool:
    """Return True if the replica set has all pods of the deployment, available, and is annotated with that size."""
    wanted = desired_replicas(deployment)
    return (
        replica_set is not None
        and replicas_of(replica_set) == wanted
        and _count(replica_set, DESIRED_REPLICAS) == wanted
        and replica_set.status.available_replicas == wanted
    )


def _only_active_or_newest(family: ReplicaSets) -> ReplicaSet | None:
    active = family.active
    if len(active) == 1:
        return active[0]
    if active or not family.all:
        return None
    return family.new or family.old[-1]


def _is_outdated(deployment: Deployment, scaling: Scaling) -> bool:
    known = scaling.replica_set.metadata.annotations
    return any(known.get(key) != value for key, value in size_annotations(deployment).items())


def _in_proportion(deployment: Deployment, active: Sequence[ReplicaSet]) -> list[Scaling]:
    allowed = max_replicas(deployment) if desired_replicas(deployment) > 0 else 0
    to_add = allowed - total_replicas(active)
    # Larger ones first; among equals, newer ones scale up first and older ones scale down first.
    ranked = sorted(active, key=age_rank, reverse=to_add > 0)
    ranked.sort(key=replicas_of, reverse=True)
    added, plan = 0, []
    for one in ranked:
        share = _limited_proportion(deployment, one, to_add - added) if to_add else 0
        plan.append(Scaling(one, replicas_of(one) + share))
        added += share
    if plan and to_add:
        largest = plan[0]
        plan[0] = Scaling(largest.replica_set, max(largest.replicas + to_add - added, 0))
    return plan


def _limited_proportion(deployment: Deployment, replica_set: ReplicaSet, left: int) -> int:
    """Return the number of pods to add or remove, limited by what is left to distribute."""
    fraction = _replica_set_fraction(deployment, replica_set)
    return min(fraction, left) if left > 0 else max(fraction, left) if left < 0 else 0


def _replica_set_fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """Return the proportional change of one replica set."""
    size = replicas_of(replica_set)
    if desired_replicas(deployment) == 0:
        return -size
    # The annotation may have been removed; then the current number of pods is used.
    before = _count(replica_set, MAX_REPLICAS) or deployment.status.replicas
    if before == 0:
        return 0
    return int(size * max_replicas(deployment) / before + 0.5) - size


def _count(replica_set: ReplicaSet, annotation: str) -> int | None:
    text = replica_set.metadata.annotations.get(annotation, "")
    if not (text.isascii() and text.isdigit()):
        return None
    count = int(text)
    return count if count <= _INT32_MAX else None
