# SPDX-License-Identifier: Apache-2.0
"""Sets VolumeAttachments of simulated nodes to attached at once, as there is no disk.

Watches: volume attachments, persistent volumes, nodes.
Owns: nothing.
Writes: `attached` in the status of attachments to simulated nodes whose volume exists, unless an annotation forbids it.
Wakes itself: never.
Differs from upstream: replaces the external attacher of every driver. It sets no finalizer: deletion is detachment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, PersistentVolume
from kubeloop.api.generated.storage_v1 import VolumeAttachment
from kubeloop.api.pods.volumes import ATTACHMENTS_BY_NODE, node_of_attachment
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key

NAME: Final = "simulated-attacher"
_WORKERS: Final = 16
_ATTACHMENTS_BY_VOLUME: Final = "persistent-volume"


def wire(
    client: Client, informers: SharedInformerFactory, nodes: Informer, served_nodes: ServedNodes, clock: Clock
) -> Controller[ObjectKey]:
    """Return the controller of the attacher."""
    attachments = informers.for_resource(resource_of_class(VolumeAttachment))
    attachments.add_indexer(ATTACHMENTS_BY_NODE, node_of_attachment)
    attachments.add_indexer(_ATTACHMENTS_BY_VOLUME, _volume_of_attachment)
    volumes = informers.for_resource(resource_of_class(PersistentVolume))
    attacher = SimulatedAttacher(client, attachments, volumes, served_nodes)
    loop: Controller[ObjectKey] = Controller(NAME, attacher.reconcile, clock, workers=_WORKERS)
    loop.watches(attachments, own_key, lambda _, new: new is not None)
    loop.watches(
        volumes,
        lambda volume: map(key_of, attacher.attachments_of_volume(volume.metadata.name)),
        lambda old, new: old is None and new is not None,
    )
    loop.watches(
        nodes, lambda node: map(key_of, attacher.attachments_of_node(node.metadata.name)), _is_relevant_node_update
    )
    return loop


class SimulatedAttacher:
    """Reconciles volume attachments of simulated nodes."""

    def __init__(self, client: Client, attachments: Informer, volumes: Informer, served_nodes: ServedNodes) -> None:
        self._client = client
        self._attachments = attachments
        self._volumes = volumes
        self._served_nodes = served_nodes

    def attachments_of_node(self, node: str) -> Iterable[VolumeAttachment]:
        """Return the attachments of a node."""
        found: Iterable[VolumeAttachment] = self._attachments.by_index(ATTACHMENTS_BY_NODE, node)
        return found

    def attachments_of_volume(self, volume: str) -> Iterable[VolumeAttachment]:
        """Return the attachments of a persistent volume."""
        found: Iterable[VolumeAttachment] = self._attachments.by_index(_ATTACHMENTS_BY_VOLUME, volume)
        return found

    async def reconcile(self, key: ObjectKey) -> None:
        """Set an attachment to attached."""
        one: VolumeAttachment | None = self._attachments.get("", key.name)
        if one is None or one.status.attached or one.metadata.deletion_timestamp is not None:
            return
        if any(self._volumes.get("", volume) is None for volume in _volume_of_attachment(one)):
            return
        node = self._served_nodes.get(one.spec.node_name)
        if node is None or not self._served_nodes.can_attach(node):
            return
        patch = {"metadata": {"uid": one.metadata.uid}, "status": {"attached": True}}
        try:
            await self._client.patch(VolumeAttachment, key.name, patch, subresource="status")
        except NotFound:
            return


def _volume_of_attachment(attachment: VolumeAttachment) -> tuple[str, ...]:
    """Return the name of the persistent volume; empty for an inline volume."""
    name = attachment.spec.source.persistent_volume_name
    return () if name is None else (name,)


def _is_relevant_node_update(old: Any, new: Node | None) -> bool:
    return new is not None and (old is None or old.metadata.annotations != new.metadata.annotations)
