# SPDX-License-Identifier: Apache-2.0
"""VolumeZone: filters nodes in the zone and region of the pod's volumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.api.pods.volumes import class_of_claim
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.labels import LabelPredicate
from kubeloop.scheduler.cache.pod_info import PodInfo, PodSignature
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import SKIP, ClusterEventWithHint, Plugin, Skip, unresolvable_status
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.cluster_event import NODE, ActionType

# Topology labels, with their current names.
_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
_BETWEEN: Final = "__"  # separator of the values of a volume in several zones


class VolumeZone(Plugin):
    """Compares labels of volumes and nodes; a node without any zone or region label is not rejected."""

    name = "VolumeZone"
    is_node_local = False
    filter_statuses = (unresolvable_status(name, "node(s) had no available volume zone"),)

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._claims = handle.watch_resource(resource_of_class(PersistentVolumeClaim))
        self._volumes = handle.watch_resource(resource_of_class(PersistentVolume))
        self._classes = handle.watch_resource(resource_of_class(StorageClass))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of storage objects and nodes that may help."""
        both = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(
                self._classes.resource.group_resource, ActionType.ADD, _is_schedulable_after_storage_class_added
            ),
            ClusterEventWithHint(NODE, ActionType.ADD | ActionType.NODE_LABEL),
            ClusterEventWithHint(self._claims.resource.group_resource, both, _is_schedulable_after_pvc_change),
            ClusterEventWithHint(self._volumes.resource.group_resource, both, _is_schedulable_after_pv_change),
        )

    def applies_to(self, template: PodSignature) -> bool:
        """Return True for pods with claims."""
        return bool(template.claims)

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> list[tuple[str, frozenset[str]]] | Skip | Status:
        """Return the topology labels of the volumes; SKIP without any."""
        wanted: list[tuple[str, frozenset[str]]] = []
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            found = self._zones(pod.key.namespace, volume.persistent_volume_claim.claim_name)
            if isinstance(found, str):
                return unresolvable_status(self.name, found)
            wanted += found
        return wanted or SKIP

    def filter(self, state: list[tuple[str, frozenset[str]]], cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for nodes whose labels do not match."""
        wrong = np.zeros(len(cluster.in_use[rows]), bool)
        for label, values in state:
            own = cluster.labels.column(label)
            matches = LabelPredicate(own, _one_of(values)).evaluate(rows)
            today = LabelPredicate(cluster.labels.column(_LABELS[label]), _one_of(values)).evaluate(rows)
            wrong |= ~np.where(own.ids[rows] >= 0, matches, today)
        has_zone = np.zeros(len(wrong), bool)
        for label in _LABELS:
            has_zone |= cluster.labels.column(label).ids[rows] >= 0
        return (wrong & has_zone).astype(np.int16)

    def _zones(self, namespace: str, name: str) -> list[tuple[str, frozenset[str]]] | str:
        """Return the topology labels of a claim's volume; or the reason why they are unknown."""
        claim = self._claims.get(namespace, name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.spec.volume_name:
            volume = self._volumes.get("", claim.spec.volume_name)
            return volume_topologies(volume) if volume else f'persistentvolume "{claim.spec.volume_name}" not found'
        wanted = class_of_claim(claim)
        if not wanted:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        found = self._classes.get("", wanted)
        if found is None:
            return f'storageclass.storage.k8s.io "{wanted}" not found'
        if found.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{wanted}"'
        return [] if found.volume_binding_mode == "WaitForFirstConsumer" else "PersistentVolume had no name"


def volume_topologies(volume: PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    """Return the zone and region labels of a volume with their values."""
    labels = volume.metadata.labels
    return [(label, frozenset(labels[label].split(_BETWEEN))) for label in _LABELS if label in labels]


def _one_of(values: frozenset[str]) -> Callable[[str | None], bool]:
    return lambda value: value in values


def _is_schedulable_after_storage_class_added(_: PodInfo, __: Any, new: Any) -> bool:
    return bool(new.volume_binding_mode == "WaitForFirstConsumer")


def _is_schedulable_after_pvc_change(pod: PodInfo, _: Any, new: Any) -> bool:
    names = [one.persistent_volume_claim.claim_name for one in pod.pod.spec.volumes if one.persistent_volume_claim]
    return new.metadata.namespace == pod.key.namespace and new.metadata.name in names


def _is_schedulable_after_pv_change(_: PodInfo, old: Any, new: Any) -> bool:
    return old is None or volume_topologies(old) != volume_topologies(new)
