# SPDX-License-Identifier: Apache-2.0
"""Maps changes of claims, volumes and attachments to the pods and nodes that must be reconciled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import CSIDriver
from kubeloop.api.pods.volumes import PODS_BY_CLAIM, claim_keys_of, has_released_volumes
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.sync.sync_queues import SyncQueues
from kubeloop.kubelet.volumes.attachments import VolumeAttachmentsView
from kubeloop.kubelet.volumes.claims import ClaimChecker
from kubeloop.kubelet.volumes.reported_volumes import ReportedVolumes
from kubeloop.kubelet.volumes.volume_manager import VolumeManager
from kubeloop.kubelet.volumes.volume_metrics import VolumeMetrics
from kubeloop.kubelet.volumes.volume_sources import VolumeSourceChecker
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.informer.store import NODE
from kubeloop.runtime.objects.keys import ObjectKey, key_of

Loop = Controller[ObjectKey]

ATTACHABLE_INDEX = "node of a pod with volumes that may have to be attached"
# Sources of volumes that are made on the node.
_LOCAL_SOURCES = ("projected", "empty_dir", "config_map", "secret", "downward_api", "host_path", "image", "csi")


class VolumeWatch:
    """Wakes pods that wait for volumes, and nodes whose volumes in use change."""

    def __init__(self, pods: Informer, informers: SharedInformerFactory, queues: SyncQueues, client: Client) -> None:
        self._client = client
        self._pods = pods
        self._queues = queues
        self.reported_volumes = ReportedVolumes(self._enqueue_pods_with_claims)
        pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
        pods.add_indexer(ATTACHABLE_INDEX, node_if_attachable)
        kinds = (PersistentVolumeClaim, PersistentVolume, CSIDriver)
        self._claims, self._volumes, self._drivers = (informers.for_resource(resource_of_class(kind)) for kind in kinds)
        self.attachments = VolumeAttachmentsView(self._claims, self._volumes, self._drivers, self.reported_volumes)
        self.claims = ClaimChecker(self._claims, self._volumes)

    def register(self, pod_loop: Loop, node_loop: Loop) -> None:
        """Register the watches of the pod and node controllers."""
        pod_loop.watches(self._claims, lambda claim: map(key_of, self._users_of(key_of(claim))))
        pod_loop.watches(self._volumes, lambda volume: map(key_of, self._users_of(_claim_of(volume))))
        node_loop.watches(self._claims, lambda claim: map(_node_of, self._users_of(key_of(claim))))
        node_loop.watches(self._volumes, lambda volume: map(_node_of, self._users_of(_claim_of(volume))))
        node_loop.watches(self._pods, lambda pod: (_node_of(pod),), _changes_use)
        for loop in (pod_loop, node_loop):
            loop.watches(self._drivers, lambda _: ())  # they rarely change; the caches only need to be filled first

    def new_volume_manager(self, events: PodEvents, clock: Clock, metrics: VolumeMetrics) -> VolumeManager:
        """Return the volume manager."""
        sources = VolumeSourceChecker(self._client, clock)
        return VolumeManager(self._client, self.attachments, self.claims, sources, events, clock, metrics)

    def volumes_in_use(self, node: str) -> tuple[str, ...]:
        """Return the unique names of the volumes that the pods of a node use."""
        pods = self._pods.by_index(ATTACHABLE_INDEX, node)
        return self.attachments.volumes_in_use(pods) if pods else ()

    def handle_node_update(self, old: Node, new: Node) -> None:
        """Queue the pods of a node that a change of the node may allow to start."""
        if (old.status.volumes_attached, old.status.volumes_in_use) == (
            new.status.volumes_attached,
            new.status.volumes_in_use,
        ):
            return
        self._enqueue_pods_with_claims(new.metadata.name)

    def _enqueue_pods_with_claims(self, node: str) -> None:
        for pod in self._pods.by_index(NODE, node):
            if claim_keys_of(pod):
                self._queues.pods.add(key_of(pod))

    def _users_of(self, claim: ObjectKey) -> Iterable[Pod]:
        found: Iterable[Pod] = self._pods.by_index(PODS_BY_CLAIM, f"{claim.namespace}/{claim.name}")
        return [pod for pod in found if pod.spec.node_name]


def node_if_attachable(pod: Pod) -> tuple[str, ...]:
    """Return the node of a pod if it uses a volume that may have to be attached: few pods do."""
    node, volumes = pod.spec.node_name, pod.spec.volumes
    if not node or all(any(getattr(one, source) is not None for source in _LOCAL_SOURCES) for one in volumes):
        return ()
    return () if has_released_volumes(pod) else (node,)


def _node_of(pod: Pod) -> ObjectKey:
    return ObjectKey("", pod.spec.node_name)


def _claim_of(volume: PersistentVolume) -> ObjectKey:
    claim = volume.spec.claim_ref
    return ObjectKey(claim.namespace, claim.name) if claim is not None else ObjectKey("", "")


def _changes_use(old: Any, new: Any) -> bool:
    """Return True if a pod update may change the volumes in use of its node."""
    pod = old if new is None else new
    if not pod.spec.node_name or not claim_keys_of(pod):
        return False
    if old is None or new is None:
        return True
    return bool(old.spec.node_name != new.spec.node_name or has_released_volumes(old) != has_released_volumes(new))
