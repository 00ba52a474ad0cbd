# SPDX-License-Identifier: Apache-2.0
"""Queueing hints of the volume plugins for changes of storage objects. Pure."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.volumes.counted_volumes import counted_inline_volume

_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"


def is_schedulable_after_storage_class_change(_: PodInfo, old: StorageClass | None, new: StorageClass) -> bool:
    """Return True if a StorageClass was added or its allowedTopologies changed."""
    return old is None or old.allowed_topologies != new.allowed_topologies


def is_schedulable_after_csi_node_change(_: PodInfo, old: CSINode | None, new: CSINode) -> bool:
    """Return True if a CSINode was added or its migrated plugins changed."""
    return old is None or old.metadata.annotations.get(_MIGRATED) != new.metadata.annotations.get(_MIGRATED)


def is_schedulable_after_csi_driver_change(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> bool:
    """Return True if a driver of the pod's inline volumes stopped publishing storage capacity."""
    used = (one.csi.driver for one in pod.pod.spec.volumes if one.csi is not None)
    return new.metadata.name in used and bool(old.spec.storage_capacity) and not new.spec.storage_capacity


def is_schedulable_after_csi_storage_capacity_change(
    _: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> bool:
    """Return True if a CSIStorageCapacity was added or its maximum volume size has increased."""
    if old is None:
        return True
    before, after = _largest(old), _largest(new)
    return after is not None and (before is None or after > before)


def _largest(capacity: CSIStorageCapacity) -> int | None:
    told = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if told is None else parse_quantity(told).value()


def is_schedulable_after_volume_attachment_deleted(pod: PodInfo, old: VolumeAttachment, _: None) -> bool:
    """Return True if a deleted VolumeAttachment may be of a driver of the pod.

    The volume of a claim may be of any driver; for inline volumes the driver is known.
    """
    for one in pod.pod.spec.volumes:
        if one.persistent_volume_claim is not None:
            return True
        disk = counted_inline_volume(one)
        if disk is not None and disk.driver == old.spec.attacher:
            return True
    return False


def is_schedulable_after_csi_node_updated(_: PodInfo, old: CSINode, new: CSINode) -> bool:
    """Return True if a driver was added to a CSINode or its limit has increased."""
    before, after = _limits(old), _limits(new)
    return any(name not in before or count > before[name] for name, count in after.items())


def _limits(node: CSINode) -> dict[str, int]:
    drivers = node.spec.drivers or ()
    return {one.name: (one.allocatable.count or 0) if one.allocatable else 0 for one in drivers}
