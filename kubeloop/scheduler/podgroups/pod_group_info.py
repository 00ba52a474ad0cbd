# SPDX-License-Identifier: Apache-2.0
"""Pod group info: a group in a scheduling cycle, with its children and queued pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.scheduler.podgroups.group_key import AnyPodGroup, PodGroupKey, group_key_of_pod
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo


@dataclass(slots=True)
class PodGroupInfo:
    """Group with the pods to schedule; only pod groups have pods, only composite groups have children."""

    key: PodGroupKey
    group: AnyPodGroup
    children: list[PodGroupInfo] = field(default_factory=list)
    pods: list[QueuedPodInfo] = field(default_factory=list)

    @property
    def is_composite(self) -> bool:
        """True for a composite pod group."""
        return not isinstance(self.group, PodGroup)

    def keep_pods(self, pods: list[QueuedPodInfo]) -> None:
        """Replace the pods by those that are still to be scheduled."""
        self.pods = pods

    def leaves(self) -> Iterator[PodGroupInfo]:
        """Yield the pod groups at or below this group."""
        if not self.is_composite:
            yield self
        for child in self.children:
            yield from child.leaves()

    def all_pods(self) -> Iterator[QueuedPodInfo]:
        """Yield the pods of all pod groups at or below this group."""
        for leaf in self.leaves():
            yield from leaf.pods


def build_pod_group_info(manager: PodGroupManager, root: PodGroupKey, pods: list[QueuedPodInfo]) -> PodGroupInfo | None:
    """Return the tree of groups below a root, with the queued pods at its leaves; None if the root is unknown."""
    by_leaf: dict[PodGroupKey | None, list[QueuedPodInfo]] = {}
    for queued in pods:
        by_leaf.setdefault(group_key_of_pod(queued.info.pod), []).append(queued)
    return _build(manager, root, by_leaf, set())


def _build(
    manager: PodGroupManager,
    key: PodGroupKey,
    by_leaf: dict[PodGroupKey | None, list[QueuedPodInfo]],
    seen: set[PodGroupKey],
) -> PodGroupInfo | None:
    group = manager.get(key)
    if group is None or key in seen:
        return None
    seen.add(key)
    built = (_build(manager, child, by_leaf, seen) for child in manager.children(key))
    return PodGroupInfo(key, group, [one for one in built if one is not None], by_leaf.get(key, []))
