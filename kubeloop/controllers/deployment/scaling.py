"""Scales a deployment: distributes a change of its size over the replica sets in proportion. Pure.

Scaling during a rollout neither speeds it up nor delays it. Replica sets record in annotations the deployment size
for which they were last scaled; a difference reveals a scaling event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.controllers.deployment.limits import ROLLING, most_pods
from kubeloop.controllers.deployment.replica_sets import Family, Scaling, age_rank, size_of, total_size, wanted_by

DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
_INT32_MAX: Final = 2**31 - 1


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Build the desired-replicas and max-replicas annotations of a replica set."""
    return {DESIRED: str(wanted_by(deployment)), MOST: str(most_pods(deployment))}


def is_scaled(deployment: Deployment, family: Family) -> bool:
    """Return True if the deployment's size differs from the one for which its replica sets were scaled."""
    wanted = wanted_by(deployment)
    return any(known not in (None, wanted) for known in (_count(one, DESIRED) for one in family.active))


def rescaling(deployment: Deployment, family: Family) -> list[Scaling]:
    """Return the replica sets to scale, or to annotate with the new size."""
    only = _only_active_or_newest(family)
    if only is not None:
        wanted = wanted_by(deployment)
        known = _count(only, DESIRED)
        return [] if size_of(only) == wanted and known in (None, wanted) else [Scaling(only, wanted)]
    if is_saturated(deployment, family.new):  # others must have been adopted
        return [Scaling(one, 0) for one in family.active_old]
    if deployment.spec.strategy.type != ROLLING:
        return []
    plan = _in_proportion(deployment, family.active)
    return [one for one in plan if one.replicas != size_of(one.replica_set) or _is_outdated(deployment, one)]


def is_saturated(deployment: Deployment, replica_set: ReplicaSet | None) -> bool:
    """Return True if the replica set has all pods of the deployment, available, and is annotated with that size."""
    wanted = wanted_by(deployment)
    return (
        replica_set is not None
        and size_of(replica_set) == wanted
        and _count(replica_set, DESIRED) == wanted
        and replica_set.status.available_replicas == wanted
    )


def _only_active_or_newest(family: Family) -> ReplicaSet | None:
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
    allowed = most_pods(deployment) if wanted_by(deployment) > 0 else 0
    to_add = allowed - total_size(active)
    # Larger ones first; among equals, newer ones scale up first and older ones scale down first.
    ranked = sorted(active, key=age_rank, reverse=to_add > 0)
    ranked.sort(key=size_of, reverse=True)
    added, plan = 0, []
    for one in ranked:
        share = _share(deployment, one, to_add - added) if to_add else 0
        plan.append(Scaling(one, size_of(one) + share))
        added += share
    if plan and to_add:
        largest = plan[0]
        plan[0] = Scaling(largest.replica_set, max(largest.replicas + to_add - added, 0))
    return plan


def _share(deployment: Deployment, replica_set: ReplicaSet, left: int) -> int:
    """Return the number of pods to add or remove, limited by what is left to distribute."""
    fraction = _fraction(deployment, replica_set)
    return min(fraction, left) if left > 0 else max(fraction, left) if left < 0 else 0


def _fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """Return the proportional change of one replica set."""
    size = size_of(replica_set)
    if wanted_by(deployment) == 0:
        return -size
    # The annotation may have been removed; then the current number of pods is used.
    before = _count(replica_set, MOST) or deployment.status.replicas
    if before == 0:
        return 0
    return int(size * most_pods(deployment) / before + 0.5) - size


def _count(replica_set: ReplicaSet, annotation: str) -> int | None:
    text = replica_set.metadata.annotations.get(annotation, "")
    if not (text.isascii() and text.isdigit()):
        return None
    count = int(text)
    return count if count <= _INT32_MAX else None
