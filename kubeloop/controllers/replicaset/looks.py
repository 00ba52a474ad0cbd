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
from kubeloop.controllers.shared.pods.deletion_order import Standing, standing_of
from kubeloop.runtime.informer.equivalence_groups import Place

LOOKS: Final = "looks of replicas"
_OWNERS: Final = ("ReplicaSet", "ReplicationController")
_ANY: Final = Standing("", 0, False, 0, "", 0, 0, "")  # for pods that are no longer active

State = Literal["active", "terminating", "ended"]


class Look(msgspec.Struct, frozen=True, gc=False):
    """Equivalence class of pods: lifecycle state, labels, and ranking properties if active."""

    state: State
    labels: tuple[tuple[str, str], ...]
    standing: Standing = _ANY


# The pods of one set.
Pods = Mapping[Look, Sequence[Pod]]


def look_of(pod: Pod) -> Look:
    """Return the class of a pod."""
    labels = tuple((pod.metadata.labels or {}).items())
    if is_terminal(pod):
        return Look("ended", labels)
    if pod.metadata.deletion_timestamp is not None:
        return Look("terminating", labels)
    return Look("active", labels, standing_of(pod))


def by_look(*pods: Pod) -> dict[Look, tuple[Pod, ...]]:
    """Group pods that no cache has grouped."""
    found: dict[Look, list[Pod]] = {}
    for pod in pods:
        found.setdefault(look_of(pod), []).append(pod)
    return {look: tuple(alike) for look, alike in found.items()}


def place_of(pod: Pod) -> Place | None:
    """Return the group key by the UID of the controlling set; None for pods of other owners."""
    controller = controller_of(pod.metadata.owner_references)
    return Place(controller.uid, look_of(pod)) if controller is not None and controller.kind in _OWNERS else None


def matching(pods: Pods, selector: LabelSelector) -> Pods:
    """Return the pods that the selector matches."""
    fits: dict[tuple[tuple[str, str], ...], bool] = {}
    for look in pods:
        if look.labels not in fits:
            fits[look.labels] = selector.matches(dict(look.labels))
    return {look: alike for look, alike in pods.items() if fits[look.labels]}


def of_state(pods: Pods, state: State) -> Pods:
    """Return the pods in one state."""
    return {look: alike for look, alike in pods.items() if look.state == state}


def number_of(pods: Pods) -> int:
    """Return the number of pods."""
    return sum(map(len, pods.values()))
