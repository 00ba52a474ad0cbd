# SPDX-License-Identifier: Apache-2.0
"""Chooses the pods of an older revision to delete next in a rolling update. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubeloop.api.generated.apps_v1 import StatefulSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_available
from kubeloop.api.scalars.intstr import scaled_value
from kubeloop.controllers.statefulset.identity import replicas_of, revision_of
from kubeloop.controllers.statefulset.status import is_created


def is_unavailable(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Return True if the pod is terminating or not available."""
    return pod.metadata.deletion_timestamp is not None or not is_available(pod, min_ready_seconds, now)


def max_unavailable(set: StatefulSet) -> int:
    """Return the number of pods that an update may make unavailable; percentages round down, but to at least 1."""
    rolling = set.spec.update_strategy.rolling_update
    if rolling is None or rolling.max_unavailable is None:
        return 1
    return max(1, scaled_value(rolling.max_unavailable, replicas_of(set), round_up=False))


def pods_to_update(set: StatefulSet, replicas: Sequence[Pod], revision: str, now: datetime) -> list[Pod]:
    """Return the outdated pods to delete now: highest ordinals first, none below the partition."""
    strategy = set.spec.update_strategy
    if strategy.type == "OnDelete":
        return []
    partition = strategy.rolling_update.partition or 0 if strategy.rolling_update is not None else 0
    seconds = set.spec.min_ready_seconds
    room = max_unavailable(set) - sum(is_unavailable(pod, seconds, now) for pod in replicas)
    old = [
        pod
        for pod in reversed(replicas[partition:])
        if revision_of(pod) != revision and is_created(pod) and pod.metadata.deletion_timestamp is None
    ]
    if set.spec.pod_management_policy != "Parallel":
        return old[: max(0, room)]
    # Unavailable pods use no budget; spent on others, it would never reach unhealthy ones with lower ordinals.
    ill = [pod for pod in old if not is_available(pod, seconds, now)]
    well = [pod for pod in old if is_available(pod, seconds, now)]
    return ill + well[: max(0, room)]
