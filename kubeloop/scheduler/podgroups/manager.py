# SPDX-License-Identifier: Apache-2.0
"""Pod group manager: the known groups, their hierarchy, and the pods of each by their progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.scheduler.podgroups.group_key import (
    POD_GROUP,
    AnyPodGroup,
    PodGroupKey,
    composite_key,
    group_key,
    group_key_of_pod,
)


@dataclass(slots=True)
class PodGroupState:
    """Pods of a group by uid.

    Invariant: `assumed` and `assigned` are disjoint parts of `pods`; the others are unscheduled.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)  # node by uid; decided, not confirmed by the API server
    assigned: dict[str, str] = field(default_factory=dict)  # node by uid

    @property
    def scheduled_count(self) -> int:
        """Number of pods with a node."""
        return len(self.assumed) + len(self.assigned)

    def scheduled_pods(self) -> Iterator[tuple[Pod, str]]:
        """Yield the pods with a node, and the node's name."""
        for part in (self.assigned, self.assumed):
            for uid, node in part.items():
                yield self.pods[uid], node

    def unscheduled_pods(self) -> list[Pod]:
        """Return the pods without a node."""
        return [pod for uid, pod in self.pods.items() if uid not in self.assumed and uid not in self.assigned]

    def set_pod(self, pod: Pod) -> None:
        """Add or update a pod, assigned if it names a node."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        self.pods[uid] = pod
        if node:
            self.assumed.pop(uid, None)
            self.assigned[uid] = node

    def remove_pod(self, uid: str) -> None:
        """Remove a pod."""
        for part in (self.pods, self.assumed, self.assigned):
            part.pop(uid, None)

    def assume_pod(self, uid: str, node: str) -> None:
        """Record a decision for a pod that is known and not assigned."""
        if uid in self.pods and uid not in self.assigned:
            self.assumed[uid] = node

    def forget_pod(self, uid: str) -> None:
        """Withdraw a decision."""
        self.assumed.pop(uid, None)


class PodGroupManager:
    """Known groups with their members; groups may have pods or children before their own object is seen."""

    def __init__(self, *, has_composites: bool) -> None:
        self._has_composites = has_composites
        self._groups: dict[PodGroupKey, AnyPodGroup] = {}
        self._children: dict[PodGroupKey, set[PodGroupKey]] = {}  # by parent, which may be unknown yet
        self._states: dict[PodGroupKey, PodGroupState] = {}

    # Groups.

    def set_group(self, group: AnyPodGroup) -> None:
        """Add or update a group; its parent cannot change."""
        key = group_key(group)
        self._groups[key] = group
        parent = self._parent_of(group)
        if parent is not None:
            self._children.setdefault(parent, set()).add(key)

    def remove_group(self, group: AnyPodGroup) -> None:
        """Remove a group; its pods stay known."""
        key = group_key(group)
        self._groups.pop(key, None)
        parent = self._parent_of(group)
        siblings = self._children.get(parent) if parent is not None else None
        if parent is not None and siblings is not None:
            siblings.discard(key)
            if not siblings:
                del self._children[parent]

    def get(self, key: PodGroupKey) -> AnyPodGroup | None:
        """Return the object of a group, or None."""
        return self._groups.get(key)

    def pod_group_of(self, pod: Pod) -> PodGroup | None:
        """Return the pod group of a pod if it is known."""
        key = group_key_of_pod(pod)
        found = None if key is None else self._groups.get(key)
        return found if isinstance(found, PodGroup) else None

    def children(self, key: PodGroupKey) -> Sequence[PodGroupKey]:
        """Return the known children of a composite group, in order of their names."""
        return sorted(one for one in self._children.get(key, ()) if one in self._groups)

    def root_of(self, key: PodGroupKey) -> PodGroupKey | None:
        """Return the topmost group above a group; None if one on the way is unknown, or they form a cycle."""
        seen: set[PodGroupKey] = set()
        while key not in seen:
            seen.add(key)
            group = self._groups.get(key)
            if group is None:
                return None
            parent = self._parent_of(group)
            if parent is None:
                return key
            key = parent
        return None

    def root_of_pod(self, pod: Pod) -> PodGroupKey | None:
        """Return the topmost group above a pod, or None."""
        key = group_key_of_pod(pod)
        return None if key is None else self.root_of(key)

    def ancestors(self, key: PodGroupKey) -> Iterator[AnyPodGroup]:
        """Yield a group and the groups above it, as far as they are known."""
        seen: set[PodGroupKey] = set()
        while key not in seen and (group := self._groups.get(key)) is not None:
            seen.add(key)
            yield group
            parent = self._parent_of(group)
            if parent is None:
                return
            key = parent

    def leaves(self, key: PodGroupKey) -> list[PodGroupKey]:
        """Return the pod groups at or below a group."""
        if key.type == POD_GROUP:
            return [key]
        found: list[PodGroupKey] = []
        seen: set[PodGroupKey] = set()
        left = [key]
        while left:
            one = left.pop()
            if one in seen:
                continue
            seen.add(one)
            if one.type == POD_GROUP:
                found.append(one)
            left += reversed(self.children(one))
        return found

    def _parent_of(self, group: AnyPodGroup) -> PodGroupKey | None:
        name = group.spec.parent_composite_pod_group_name
        return composite_key(group.metadata.namespace, name) if name is not None and self._has_composites else None

    # Pods.

    def state(self, key: PodGroupKey) -> PodGroupState:
        """Return the pods of a pod group; an empty state if none is known."""
        return self._states.get(key) or PodGroupState()

    def set_pod(self, pod: Pod) -> None:
        """Add or update a pod, if it belongs to a group."""
        key = group_key_of_pod(pod)
        if key is not None:
            self._states.setdefault(key, PodGroupState()).set_pod(pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod."""
        key = group_key_of_pod(pod)
        state = None if key is None else self._states.get(key)
        if key is not None and state is not None:
            state.remove_pod(pod.metadata.uid)
            if not state.pods:
                del self._states[key]

    # Decisions, reported by the cache.

    def handle_assumed(self, pod: Pod, node: str) -> None:
        """Record the decision for a pod."""
        key = group_key_of_pod(pod)
        if key is not None and key in self._states:
            self._states[key].assume_pod(pod.metadata.uid, node)

    def handle_forgotten(self, pod: Pod) -> None:
        """Withdraw the decision for a pod."""
        key = group_key_of_pod(pod)
        if key is not None and key in self._states:
            self._states[key].forget_pod(pod.metadata.uid)
