# SPDX-License-Identifier: Apache-2.0
"""Recreate strategy: all old pods are gone before the first new one is created. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubeloop.api.generated.apps_v1 import ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_terminal
from kubeloop.controllers.deployment.replica_sets import ReplicaSets, Scaling


def scale_down_old(family: ReplicaSets) -> list[Scaling]:
    """Scale all old replica sets to zero."""
    return [Scaling(one, 0) for one in family.active_old]


def has_old_pods_running(family: ReplicaSets, pods_of: Callable[[ReplicaSet], Iterable[Pod]]) -> bool:
    """Return True if an old replica set reports pods or has a pod that may still run."""
    if any(one.status.replicas > 0 for one in family.old):
        return True
    return any(not is_terminal(pod) for one in family.old for pod in pods_of(one))
