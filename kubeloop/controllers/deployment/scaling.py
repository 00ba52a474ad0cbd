"""Another number of pods: shared out among the replica sets in proportion to their sizes. Pure.

A change of size in the middle of a rollout neither hastens it nor holds it up. Replica sets carry in annotations for
which size of the deployment they were scaled last; that is how a change of size is noticed.
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
    """What a replica set remembers of the deployment that scaled it."""
    return {DESIRED: str(wanted_by(deployment)), MOST: str(most_pods(deployment))}


def is_scaled(deployment: Deployment, family: Family) -> bool:
    """Whether the deployment has another size than its replica sets were scaled for."""
    wanted = wanted_by(deployment)
    return any(known not in (None, wanted) for known in (_count(one, DESIRED) for one in family.active))


def rescaling(deployment: Deployment, family: Family) -> list[Scaling]:
    """Which replica sets get which size, or only its annotations."""
    only = _only_active_or_newest(family)
    if only is not None:
        wanted = wanted_by(deployment)
        known = _count(only, DESIRED)
        return [] if size_of(only) == wanted and known in (None, wanted) else [Scaling(only, wanted)]
    if is_saturated(deployment, family.new):  # others can only have been adopted
        return [Scaling(one, 0) for one in family.active_old]
    if deployment.spec.strategy.type != ROLLING:
        return []
    plan = _in_proportion(deployment, family.active)
    return [one for one in plan if one.replicas != size_of(one.replica_set) or _is_outdated(deployment, one)]


def is_saturated(deployment: Deployment, replica_set: ReplicaSet | None) -> bool:
    """Whether it has all the pods of the deployment, available, and knows that there are no more to come."""
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
    # The larger first; of equals, the newer ones grow first and the older ones shrink first.
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
    """How many pods more or less one gets, of so many that are left to be shared out."""
    fraction = _fraction(deployment, replica_set)
    return min(fraction, left) if left > 0 else max(fraction, left) if left < 0 else 0


def _fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """What is due to one by its size alone."""
    size = size_of(replica_set)
    if wanted_by(deployment) == 0:
        return -size
    # Somebody may have taken the annotation away; then the present number of pods has to do.
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
