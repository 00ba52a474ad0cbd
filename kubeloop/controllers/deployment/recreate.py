"""Recreation: all old pods are gone before the first new one is made. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubeloop.api.generated.apps_v1 import ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_terminal
from kubeloop.controllers.deployment.replica_sets import Family, Scaling


def removals(family: Family) -> list[Scaling]:
    """Old replica sets end at once."""
    return [Scaling(one, 0) for one in family.active_old]


def is_old_running(family: Family, pods_of: Callable[[ReplicaSet], Iterable[Pod]]) -> bool:
    """Whether an old replica set says that it has pods, or has one that may still run."""
    if any(one.status.replicas > 0 for one in family.old):
        return True
    return any(not is_terminal(pod) for one in family.old for pod in pods_of(one))
