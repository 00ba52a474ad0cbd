"""What the pods of a set look like to it: pods that look alike are counted and ranked together. Pure.

A set of thousands has but a few looks at first, one for each second and node in which something happened to its pods.
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
_ANY: Final = Standing("", 0, False, 0, "", 0, 0, "")  # of those that no longer count

State = Literal["active", "terminating", "ended"]


class Look(msgspec.Struct, frozen=True, gc=False):
    """How far along a pod is, its labels, and where it stands among the active ones."""

    state: State
    labels: tuple[tuple[str, str], ...]
    standing: Standing = _ANY


# The pods of one set.
Pods = Mapping[Look, Sequence[Pod]]


def look_of(pod: Pod) -> Look:
    labels = tuple((pod.metadata.labels or {}).items())
    if is_terminal(pod):
        return Look("ended", labels)
    if pod.metadata.deletion_timestamp is not None:
        return Look("terminating", labels)
    return Look("active", labels, standing_of(pod))


def by_look(*pods: Pod) -> dict[Look, tuple[Pod, ...]]:
    """Pods that no cache has grouped."""
    found: dict[Look, list[Pod]] = {}
    for pod in pods:
        found.setdefault(look_of(pod), []).append(pod)
    return {look: tuple(alike) for look, alike in found.items()}


def place_of(pod: Pod) -> Place | None:
    """By the uid of the set that controls it; pods of other owners are not kept track of."""
    controller = controller_of(pod.metadata.owner_references)
    return Place(controller.uid, look_of(pod)) if controller is not None and controller.kind in _OWNERS else None


def matching(pods: Pods, selector: LabelSelector) -> Pods:
    """Those that a selector selects."""
    fits: dict[tuple[tuple[str, str], ...], bool] = {}
    for look in pods:
        if look.labels not in fits:
            fits[look.labels] = selector.matches(dict(look.labels))
    return {look: alike for look, alike in pods.items() if fits[look.labels]}


def of_state(pods: Pods, state: State) -> Pods:
    return {look: alike for look, alike in pods.items() if look.state == state}


def number_of(pods: Pods) -> int:
    return sum(map(len, pods.values()))
