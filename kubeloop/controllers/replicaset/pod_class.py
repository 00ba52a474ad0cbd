# SPDX-License-Identifier: Apache-2.0
"""Groups a set's pods into classes of equivalent pods, which are counted and ranked together. Pure.

A set of thousands of pods has few classes at first, one for each second and node in which its pods changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.selectors import LabelSelector
from kubeloop.controllers.shared.pods.deletion_order import RankProperties, rank_properties
from kubeloop.runtime.informer.equivalence_groups import GroupKey

POD_CLASSES: Final = "looks of replicas"
_OWNERS: Final = ("ReplicaSet", "ReplicationController")
_ANY: Final = RankProperties("", 0, False, 0, "", 0, 0, "")  # for pods that are no longer active

State = Literal["active", "terminating", "ended"]


class PodClass(msgspec.Struct, frozen=True, gc=False):
    """Equivalence class of pods: lifecycle state, labels, and ranking properties if active."""

    state: State
    labels: tuple[tuple[str, str], ...]
    rank: RankProperties = _ANY


# The pods of one set.
Pods = Mapping[PodClass, Sequence[Pod]]


def pod_class_of(pod: Pod) -> PodClass:
    """Return the class of a pod."""
    labels = tuple((pod.metadata.labels or {}).items())
    if is_terminal(pod):
        return PodClass("ended", labels)
    if pod.metadata.deletion_timestamp is not None:
        return PodClass("terminating", labels)
    return PodClass("active", labels, rank_properties(pod))


def group_by_class(*pods: Pod) -> dict[PodClass, tuple[Pod, ...]]:
    """Group pods that no cache has grouped."""
    found: dict[PodClass, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod_class_of(pod), []).append(pod)
    return {look: tuple(alike) for look, alike in found.items()}


def group_key_of(pod: Pod) -> GroupKey | None:
    """Return the group key by the UID of the controlling set; None for pods of other owners."""
    controller = controller_of(pod.metadata.owner_references)
    return (
        GroupKey(controller.uid, pod_class_of(pod)) if controller is not None and controller.kind in _OWNERS else None
    )


def select_pods(pods: Pods, selector: LabelSelector) -> Pods:
    """Return the pods that the selector matches."""
    fits: dict[tuple[tuple[str, str], ...], bool] = {}
    for look in pods:
        if look.labels not in fits:
            fits[look.labels] = selector.matches(dict(look.labels))
    return {look: alike for look, alike in pods.items() if fits[look.labels]}


def pods_in_state(pods: Pods, state: State) -> Pods:
    """Return the pods in one state."""
    return {look: alike for look, alike in pods.items() if look.state == state}


def count_pods(pods: Pods) -> int:
    """Return the number of pods."""
    return sum(map(len, pods.values()))
