# SPDX-License-Identifier: Apache-2.0
"""Claims and volumes for an agent with node rights, which may only get those of its own pods one at a time."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import Forbidden, NotFound
from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import CSIDriver
from kubeloop.api.pods.volumes import PODS_BY_CLAIM, bound_volume, claim_keys_of, claim_uses
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.sync.pod_state import PodState
from kubeloop.kubelet.sync.sync_queues import SyncQueues
from kubeloop.kubelet.volumes.attachments import VolumeAttachmentsView
from kubeloop.kubelet.volumes.claims import ClaimChecker
from kubeloop.kubelet.volumes.reported_volumes import ReportedVolumes
from kubeloop.kubelet.volumes.volume_manager import VolumeManager
from kubeloop.kubelet.volumes.volume_metrics import VolumeMetrics
from kubeloop.kubelet.volumes.watch import ATTACHABLE_INDEX, Loop, VolumeWatch, node_if_attachable
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.objects.keys import ObjectKey


class FetchedObjects:
    """Objects of one kind as last fetched."""

    def __init__(self, client: Client, kind: type[Any]) -> None:
        self._client = client
        self._kind = kind
        self._objects: dict[tuple[str, str], Any] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        """Return the object as last fetched, or None."""
        return self._objects.get((namespace, name))

    async def fetch(self, namespace: str, name: str) -> Any | None:
        """Fetch an object; None if it does not exist or is not related to this node yet."""
        try:
            self._objects[namespace, name] = await self._client.get(self._kind, name, namespace)
        except (NotFound, Forbidden):
            self.discard(namespace, name)
        return self.get(namespace, name)

    def discard(self, namespace: str, name: str) -> None:
        """Discard an object."""
        self._objects.pop((namespace, name), None)


class RestrictedVolumeWatch(VolumeWatch):
    """Volume watch of one node that cannot watch claims and volumes."""

    def __init__(self, pods: Informer, informers: SharedInformerFactory, queues: SyncQueues, client: Client) -> None:
        self._client = client
        self._pods = pods
        self._queues = queues
        self.reported_volumes = ReportedVolumes(self._enqueue_pods_with_claims)
        pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
        pods.add_indexer(ATTACHABLE_INDEX, node_if_attachable)
        pods.add_handler(ResourceEventHandlerFuncs(on_delete=self._forget))
        self._asked_claims, self._asked_volumes = (
            FetchedObjects(client, PersistentVolumeClaim),
            FetchedObjects(client, PersistentVolume),
        )
        self._drivers = informers.for_resource(resource_of_class(CSIDriver))
        self.attachments = VolumeAttachmentsView(
            self._asked_claims, self._asked_volumes, self._drivers, self.reported_volumes
        )
        self.claims = ClaimChecker(self._asked_claims, self._asked_volumes)

    def register(self, pod_loop: Loop, node_loop: Loop) -> None:
        """Register the controllers; only drivers are watched."""
        for loop in (pod_loop, node_loop):
            loop.watches(self._drivers, lambda _: ())  # they rarely change; the caches only need to be filled first

    def new_volume_manager(self, events: PodEvents, clock: Clock, metrics: VolumeMetrics) -> VolumeManager:
        """Return a volume manager that fetches claims and volumes first."""
        return RestrictedVolumeManager(self, super().new_volume_manager(events, clock, metrics))

    async def fetch_volumes(self, pod: Pod, node: Node) -> None:
        """Fetch a pod's claims and volumes; queue the node if its volumes in use have changed."""
        namespace, before = pod.metadata.namespace, self.volumes_in_use(node.metadata.name)
        for use in claim_uses(pod):
            claim = await self._asked_claims.fetch(namespace, use.name)
            if claim is not None and (volume := bound_volume(claim)):
                await self._asked_volumes.fetch("", volume)
        if self.volumes_in_use(node.metadata.name) != before:
            self._queues.nodes.add(ObjectKey("", node.metadata.name))

    def _forget(self, pod: Pod) -> None:
        for use in claim_uses(pod):
            namespace = pod.metadata.namespace
            if self._pods.by_index(PODS_BY_CLAIM, f"{namespace}/{use.name}"):
                continue
            claim = self._asked_claims.get(namespace, use.name)
            self._asked_claims.discard(namespace, use.name)
            if claim is not None:
                self._asked_volumes.discard("", bound_volume(claim))


class RestrictedVolumeManager(VolumeManager):
    """Volume manager that fetches claims and volumes before each check."""

    def __init__(self, news: RestrictedVolumeWatch, mounting: VolumeManager) -> None:
        self._news = news
        self._mounting = mounting

    async def check_attach_and_mount(self, pod: Pod, node: Node, memory: PodState) -> PodState:
        """Fetch the pod's claims and volumes, then check them."""
        if not memory.volumes_mounted and pod.metadata.deletion_timestamp is None:
            await self._news.fetch_volumes(pod, node)
        return await self._mounting.check_attach_and_mount(pod, node, memory)
