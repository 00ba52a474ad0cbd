# SPDX-License-Identifier: Apache-2.0
"""Keys of pod groups, and the facts of their objects that scheduling needs. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1alpha3 import CompositePodGroup
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.runtime.objects.keys import ObjectKey

POD_GROUP: Final = "podgroup"
COMPOSITE_POD_GROUP: Final = "compositepodgroup"
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"

AnyPodGroup = PodGroup | CompositePodGroup


class PodGroupKey(NamedTuple):
    """Type, namespace and name of a pod group or a composite pod group."""

    type: str
    namespace: str
    name: str

    @property
    def entity_key(self) -> ObjectKey:
        """Key of the group in the scheduling queue; no pod has such a name."""
        return ObjectKey(self.namespace, f"{self.type}:{self.name}")

    def __str__(self) -> str:
        return f"{self.type}/{self.namespace}/{self.name}"


def group_key(group: AnyPodGroup) -> PodGroupKey:
    """Return the key of a group."""
    kind = POD_GROUP if isinstance(group, PodGroup) else COMPOSITE_POD_GROUP
    return PodGroupKey(kind, group.metadata.namespace, group.metadata.name)


def pod_group_key(namespace: str, name: str) -> PodGroupKey:
    """Return the key of a pod group."""
    return PodGroupKey(POD_GROUP, namespace, name)


def composite_key(namespace: str, name: str) -> PodGroupKey:
    """Return the key of a composite pod group."""
    return PodGroupKey(COMPOSITE_POD_GROUP, namespace, name)


def group_key_of_pod(pod: Pod) -> PodGroupKey | None:
    """Return the key of the pod group that a pod names, or None."""
    group = pod.spec.scheduling_group
    if group is None or group.pod_group_name is None:
        return None
    return PodGroupKey(POD_GROUP, pod.metadata.namespace, group.pod_group_name)


def group_priority(group: AnyPodGroup | None) -> int:
    """Return the priority of a group; 0 by default."""
    return 0 if group is None else group.spec.priority or 0


def min_count(group: AnyPodGroup) -> int:
    """Return the number of members without which no member is scheduled; 1 for a group that is no gang."""
    if isinstance(group, PodGroup):
        gang = group.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count
    composite = group.spec.scheduling_policy.gang
    return 1 if composite is None else composite.min_group_count


def is_disrupted_as_a_whole(group: AnyPodGroup) -> bool:
    """Return True if preemption must not evict single members."""
    mode = group.spec.disruption_mode
    return mode is not None and bytes(mode.all) not in (b"", b"null")


def topology_key(group: AnyPodGroup) -> str:
    """Return the node label whose value all members must share; "" for none."""
    constraints = group.spec.scheduling_constraints
    return constraints.topology[0].key if constraints is not None and constraints.topology else ""
