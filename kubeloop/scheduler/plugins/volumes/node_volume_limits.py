# SPDX-License-Identifier: Apache-2.0
"""NodeVolumeLimits: rejects nodes where the volumes of a CSI driver would exceed its attach limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment
from kubeloop.api.pods.volumes import claim_uses, class_of_claim
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
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, ActionType
from kubeloop.scheduler.volumes.counted_volumes import (
    CSIVolume,
    counted_inline_volume,
    counted_persistent_volume,
    csi_name_from_provisioner,
)
from kubeloop.scheduler.volumes.hints import (
    is_schedulable_after_csi_node_updated,
    is_schedulable_after_volume_attachment_deleted,
)

_NODE_INDEX = "attached node"

# Volumes by a unique name, with their drivers.
_Volumes = dict[str, str]
_TOO_MANY, _MISSING = 1, 2  # larger numbers select the missing driver


class _State(NamedTuple):
    """Volumes of the pod, and the drivers that must be installed on its node."""

    volumes: _Volumes
    required_drivers: Sequence[str]


def index_by_node(attachment: VolumeAttachment) -> tuple[str, ...]:
    """Return the node of a VolumeAttachment; index function."""
    return (attachment.spec.node_name,)


class NodeVolumeLimits(Plugin):
    """Counts volumes by driver; in-tree volumes count for the drivers that replaced them."""

    name = "NodeVolumeLimits"
    is_node_local = False

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._claims = handle.watch_resource(resource_of_class(PersistentVolumeClaim))
        self._volumes = handle.watch_resource(resource_of_class(PersistentVolume))
        self._classes = handle.watch_resource(resource_of_class(StorageClass))
        self._nodes = handle.watch_resource(resource_of_class(CSINode))
        self._attachments = handle.watch_resource(resource_of_class(VolumeAttachment))
        self._drivers = handle.watch_resource(resource_of_class(CSIDriver))
        self._attachments.add_indexer(_NODE_INDEX, index_by_node)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of storage objects and pods that may help."""
        return (
            ClusterEventWithHint(self._nodes.resource.group_resource, ActionType.ADD),
            ClusterEventWithHint(
                self._nodes.resource.group_resource, ActionType.UPDATE, is_schedulable_after_csi_node_updated
            ),
            ClusterEventWithHint(ASSIGNED_POD, ActionType.DELETE, lambda _, old, __: _may_attach(old)),
            ClusterEventWithHint(self._claims.resource.group_resource, ActionType.ADD, _is_schedulable_after_pvc_added),
            ClusterEventWithHint(
                self._attachments.resource.group_resource,
                ActionType.DELETE,
                is_schedulable_after_volume_attachment_deleted,
            ),
        )

    def applies_to(self, template: PodSignature) -> bool:
        """Return True for pods with claims or in-tree disks."""
        return _may_attach(template.pod)

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> _State | Skip | Status:
        """Return the volumes of the pod; SKIP without any."""
        if not _may_attach(pod.pod):
            return SKIP
        names = [one.name for one in claim_uses(pod.pod)]
        missing = next((name for name in names if self._claims.get(pod.key.namespace, name) is None), None)
        if missing is not None:
            key = f"{pod.key.namespace}/{missing}"
            return unresolvable_status(self.name, f'looking up PVC {key}: persistentvolumeclaim "{missing}" not found')
        volumes = self._volumes_of((pod.pod,))
        demanded = sorted({one for one in volumes.values() if self._is_driver_required(one)})
        return _State(volumes, demanded) if volumes else SKIP

    def filter_status(self, state: _State, number: int) -> Status:
        """Return the status for a number of `filter`."""
        if number == _TOO_MANY:
            return unschedulable_status(self.name, "node(s) exceed max volume count")
        return unschedulable_status(
            self.name, f"{state.required_drivers[number - _MISSING]} CSI driver is not installed on the node"
        )

    def _is_driver_required(self, driver: str) -> bool:
        """Return True if the driver prevents scheduling to nodes on which it is not installed."""
        found = self._drivers.get("", driver)
        return found is not None and bool(found.spec.prevent_pod_scheduling_if_missing)

    def filter(self, state: _State, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return the reason number of each node."""
        numbers = np.arange(cluster.size)[rows]
        answers = np.zeros(len(numbers), np.int16)
        for position, row in enumerate(numbers):
            node = cluster.nodes.get(int(row))
            if node is not None:
                others = [one.pod for one in cluster.pods[int(row)].values()]
                answers[position] = self._answer(state, node.metadata.name, others)
        return answers

    def _answer(self, state: _State, node: str, others: Sequence[Pod]) -> int:
        found = self._nodes.get("", node)
        drivers = () if found is None else found.spec.drivers or ()
        installed = {one.name for one in drivers}
        for position, driver in enumerate(state.required_drivers):
            if driver not in installed:
                return _MISSING + position
        limits = {
            one.name: one.allocatable.count for one in drivers if one.allocatable and one.allocatable.count is not None
        }
        if not any(driver in limits for driver in state.volumes.values()):
            return 0
        return _TOO_MANY if self._exceeds(state.volumes, limits, others, node) else 0

    def _exceeds(self, wanted: _Volumes, limits: Mapping[str, int], others: Sequence[Pod], node: str) -> bool:
        there = self._volumes_of(others)
        attached = {**self._attached(node), **there}
        count = Counter(attached.values())
        more = Counter(driver for volume, driver in wanted.items() if volume not in there)
        return any(driver in limits and count[driver] + number > limits[driver] for driver, number in more.items())

    def _volumes_of(self, pods: Iterable[Pod]) -> _Volumes:
        found: _Volumes = {}
        for pod in pods:
            found |= dict(
                _volume_unique_name(one) for one in map(counted_inline_volume, pod.spec.volumes) if one is not None
            )
            for one in claim_uses(pod):
                claim = self._claims.get(pod.metadata.namespace, one.name)
                if claim is not None:
                    found |= self._volume_of(claim)
        return found

    def _volume_of(self, claim: PersistentVolumeClaim) -> _Volumes:
        """Return the volume of a claim; an unbound claim counts for the provisioner of its class."""
        volume = self._volumes.get("", claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            one = counted_persistent_volume(volume)
            return {} if one is None else dict((_volume_unique_name(one),))
        found = self._classes.get("", class_of_claim(claim))
        if found is None:
            return {}
        meta, driver = claim.metadata, csi_name_from_provisioner(found.provisioner)
        return {f"{driver}/future {meta.namespace}/{meta.name}": driver} if driver else {}

    def _attached(self, node: str) -> _Volumes:
        found: _Volumes = {}
        for one in self._attachments.by_index(_NODE_INDEX, node):
            name = one.spec.source.persistent_volume_name
            volume = self._volumes.get("", name) if name else None
            if volume is not None and volume.spec.csi is not None:
                found[f"{one.spec.attacher}/{volume.spec.csi.volume_handle}"] = one.spec.attacher
        return found


def _may_attach(pod: Pod) -> bool:
    return any(claim_uses(pod)) or any(counted_inline_volume(one) is not None for one in pod.spec.volumes)


def _volume_unique_name(one: CSIVolume) -> tuple[str, str]:
    return f"{one.driver}/{one.handle}", one.driver


def _is_schedulable_after_pvc_added(pod: PodInfo, _: Any, new: Any) -> bool:
    meta = new.metadata
    return meta.namespace == pod.key.namespace and any(one.name == meta.name for one in claim_uses(pod.pod))
