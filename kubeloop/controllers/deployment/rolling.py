"""Rolling update: scales the new replica set up and the old ones down, within the deployment's limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.controllers.deployment.limits import fewest_available, most_pods
from kubeloop.controllers.deployment.replica_sets import Family, Scaling, size_of, total_size, wanted_by


def size_of_new(deployment: Deployment, family: Family) -> int:
    """Return the size that the new replica set may have now, also if it is yet to be created."""
    wanted = wanted_by(deployment)
    present = 0 if family.new is None else size_of(family.new)
    if present >= wanted:
        return wanted
    room = most_pods(deployment) - total_size(family.all)
    return min(present + max(room, 0), wanted)


def shrinking(deployment: Deployment, family: Family) -> list[Scaling]:
    """Scale down old replica sets: first pods that are unavailable and would block the rollout, then surplus ones.

    Unavailable pods of the new replica set count as required, so that they don't cause more removals of old pods.
    """
    old = family.active_old
    unavailable = 0 if family.new is None else size_of(family.new) - _lasting(family.new, size_of(family.new))
    spare = total_size(family.all) - fewest_available(deployment) - unavailable
    if not old or spare <= 0:
        return []
    sizes = _without_unhealthy(old, spare)
    sizes = _without_surplus(deployment, family, old, sizes)
    return [Scaling(one, size) for one, size in zip(old, sizes, strict=True) if size != size_of(one)]


def _without_unhealthy(old: Iterable[ReplicaSet], spare: int) -> list[int]:
    sizes = []
    for one in old:
        size = size_of(one)
        removed = min(spare, size - _lasting(one, size))
        sizes.append(size - removed)
        spare -= removed
    return sizes


def _without_surplus(deployment: Deployment, family: Family, old: Iterable[ReplicaSet], sizes: list[int]) -> list[int]:
    pairs = list(zip(old, sizes, strict=True))
    available = sum(_lasting(one, size) for one, size in pairs)
    if family.new is not None:
        available += _lasting(family.new, size_of(family.new))
    surplus = available - fewest_available(deployment)
    kept = []
    for _, size in pairs:
        removed = min(size, max(surplus, 0))
        kept.append(size - removed)
        surplus -= removed
    return kept


def _lasting(replica_set: ReplicaSet, size: int) -> int:
    """Return the number of available pods that remain at that size, since unavailable ones are removed first."""
    return min(replica_set.status.available_replicas, size)
