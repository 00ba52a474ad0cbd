# SPDX-License-Identifier: Apache-2.0
"""Validation of a pod group before its scheduling cycle: what its pods must have in common. Pure."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.podgroups.group_key import PREEMPT_LOWER_PRIORITY, group_priority
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo

_POLICY_GATE: Final = "PodGroupPreemptionPolicy"
_ALL: Final = "all pods in a single pod group should have the same"


def validate_pod_group(
    root: PodGroupInfo, manager: PodGroupManager, features: Features, scheduler_names: Container[str]
) -> str:
    """Return the error of a topmost group whose pods, queued or scheduled, do not match; "" if they do."""
    queued = [one.info.pod for one in root.all_pods()]
    scheduled = [pod for leaf in root.leaves() for pod, _ in manager.state(leaf.key).scheduled_pods()]
    name = queued[0].spec.scheduler_name
    policy = preemption_policy(root, features)
    for pod in (*queued, *scheduled):
        if error := _validate_pod(pod, name, group_priority(root.group)):
            return error
        found = pod.spec.preemption_policy or PREEMPT_LOWER_PRIORITY
        if found != policy:
            common = " as the pod group's preemption policy" if features.is_enabled(_POLICY_GATE) else ""
            return f"{_ALL} preemption policy{common}, got {found} and {policy}"
    return "" if name in scheduler_names else f'profile not found for scheduler name "{name}"'


def preemption_policy(root: PodGroupInfo, features: Features) -> str:
    """Return the preemption policy of a group: its own, with the feature gate for it, or else that of its pods."""
    if features.is_enabled(_POLICY_GATE):
        return root.group.spec.preemption_policy or PREEMPT_LOWER_PRIORITY
    first = next(root.all_pods(), None)
    return (first.info.pod.spec.preemption_policy if first is not None else None) or PREEMPT_LOWER_PRIORITY


def _validate_pod(pod: Pod, scheduler_name: str, priority: int) -> str:
    if pod.spec.scheduler_name != scheduler_name:
        return f'{_ALL} .spec.schedulerName set, got: "{pod.spec.scheduler_name}" and "{scheduler_name}"'
    found = pod.spec.priority or 0
    if found != priority:
        return f"{_ALL} priority as the pod group's priority, got {found} and {priority}"
    return ""
