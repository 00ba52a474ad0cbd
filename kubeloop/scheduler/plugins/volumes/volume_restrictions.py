# SPDX-License-Identifier: Apache-2.0
"""VolumeRestrictions: rejects nodes where a disk would be used twice, and ReadWriteOncePod claims that are in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod, Volume
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo, PodSignature
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import (
    SKIP,
    ClusterEventWithHint,
    Plugin,
    Skip,
    unresolvable_status,
    unschedulable_status,
)
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, ActionType

_DISK, _IN_USE = 1, 2


class _State(NamedTuple):
    """Exclusive disks of the pod, and whether one of its ReadWriteOncePod claims is in use."""

    disks: Sequence[Volume]
    in_use: bool


class VolumeRestrictions(Plugin):
    """Prevents conflicting uses of volumes."""

    name = "VolumeRestrictions"
    is_node_local = False
    filter_statuses = (
        unschedulable_status(name, "node(s) had no available disk"),
        unschedulable_status(
            name,
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod",
        ),
    )

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._claims = handle.watch_resource(resource_of_class(PersistentVolumeClaim))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that may help."""
        return (
            ClusterEventWithHint(ASSIGNED_POD, ActionType.DELETE, _is_schedulable_after_assigned_pod_deleted),
            ClusterEventWithHint(NODE, ActionType.ADD),
            ClusterEventWithHint(self._claims.resource.group_resource, ActionType.ADD, _is_schedulable_after_pvc_added),
        )

    def applies_to(self, template: PodSignature) -> bool:
        """Return True for pods with claims or disks."""
        return bool(template.claims) or any(_is_disk(one) for one in template.pod.spec.volumes)

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> _State | Skip | Status:
        """Return the disks and the use of claims; SKIP if neither can conflict."""
        volumes = pod.pod.spec.volumes
        disks = [one for one in volumes if _is_disk(one)]
        in_use = False
        for name in _claims_of(pod.pod):
            claim = self._claims.get(pod.key.namespace, name)
            if claim is None:
                return unresolvable_status(self.name, f'persistentvolumeclaim "{name}" not found')
            alone = "ReadWriteOncePod" in claim.spec.access_modes
            in_use |= alone and cluster.claims.get((pod.key.namespace, name)) is not None
        return _State(disks, in_use) if disks or in_use else SKIP

    def filter(self, state: _State, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return the reason number of each node."""
        numbers = np.arange(cluster.size)[rows]
        answers = np.full(len(numbers), _IN_USE if state.in_use else 0, np.int16)
        if state.disks:
            for position, row in enumerate(numbers):
                others = cluster.pods.get(int(row), {}).values()
                if any(is_volume_conflict(one, other.pod) for one in state.disks for other in others):
                    answers[position] = _DISK
        return answers


def is_volume_conflict(volume: Volume, pod: Pod) -> bool:
    """Return True if a volume conflicts with those of a pod on the same node."""
    return any(_same_disk(volume, other) for other in pod.spec.volumes if _is_disk(other))


def _is_disk(volume: Volume) -> bool:
    kinds = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(one is not None for one in kinds)


def _same_disk(one: Volume, other: Volume) -> bool:
    if one.gce_persistent_disk and other.gce_persistent_disk:
        disk, existing = one.gce_persistent_disk, other.gce_persistent_disk
        return disk.pd_name == existing.pd_name and not (disk.read_only and existing.read_only)
    if one.aws_elastic_block_store and other.aws_elastic_block_store:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi and other.iscsi:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd and other.rbd:
        image, existing_image = one.rbd, other.rbd
        shared = set(image.monitors or ()) & set(existing_image.monitors or ())
        same = (image.pool, image.image) == (existing_image.pool, existing_image.image)
        return bool(shared) and same and not (image.read_only and existing_image.read_only)
    return False


def _claims_of(pod: Pod) -> list[str]:
    return [one.persistent_volume_claim.claim_name for one in pod.spec.volumes if one.persistent_volume_claim]


def _is_schedulable_after_assigned_pod_deleted(pod: PodInfo, old: Any, _: Any) -> bool:
    if old.metadata.namespace != pod.key.namespace:
        return False
    freed_disk = any(is_volume_conflict(one, old) for one in pod.pod.spec.volumes if _is_disk(one))
    return freed_disk or bool(set(_claims_of(pod.pod)) & set(_claims_of(old)))


def _is_schedulable_after_pvc_added(pod: PodInfo, _: Any, new: Any) -> bool:
    return new.metadata.namespace == pod.key.namespace and new.metadata.name in _claims_of(pod.pod)
