"""Derives from the caches which volumes are needed on which nodes, and which are attached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import VolumeAttachment
from kubeloop.api.pods.volumes import (
    ATTACHMENTS_BY_NODE,
    PODS_BY_CLAIM,
    VOLUMES_BY_DRIVER,
    bound_volume,
    claim_uses,
    has_released_volumes,
    is_attachable,
    is_claim_for_pod,
    unique_volume_name,
    uses_claim,
)
from kubeloop.controllers.attach_detach.names import is_managed
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE

# An index of attachments, by the volume.
BY_VOLUME: Final = "volume"


class AttachDetachCaches(NamedTuple):
    """Informers that the controller reads from."""

    pods: Informer
    claims: Informer
    volumes: Informer
    attachments: Informer
    nodes: Informer
    drivers: Informer


class StateOfWorld:
    """Desired and actual state of attachments, computed from the caches."""

    def __init__(self, caches: AttachDetachCaches) -> None:
        self._caches = caches
        self._names: dict[str, str] = {}  # names by which nodes report volumes; kept after a volume is gone

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume by name."""
        found: PersistentVolume | None = self._caches.volumes.get("", name)
        return found

    def node(self, name: str) -> Node | None:
        """Return a node by name."""
        found: Node | None = self._caches.nodes.get("", name)
        return found

    def unique_name(self, volume: str) -> str | None:
        """Return the name by which nodes report a volume; None if it was gone before this process started."""
        found = self.volume(volume)
        if found is not None and found.spec.csi is not None:
            self._names[volume] = unique_volume_name(found.spec.csi)
        return self._names.get(volume)

    def forget(self, volume: str) -> None:
        """Drop the remembered name of a volume."""
        self._names.pop(volume, None)

    def attachment(self, name: str) -> VolumeAttachment | None:
        """Return a VolumeAttachment by name."""
        found: VolumeAttachment | None = self._caches.attachments.get("", name)
        return found

    def attachments_of(self, volume: str) -> Iterable[VolumeAttachment]:
        """Return the attachments of a volume."""
        return self._caches.attachments.by_index(BY_VOLUME, volume)

    def attachments_on(self, node: str) -> Iterable[VolumeAttachment]:
        """Return the attachments on a node."""
        return self._caches.attachments.by_index(ATTACHMENTS_BY_NODE, node)

    def desired_nodes(self, volume: PersistentVolume | None) -> dict[str, list[Pod]]:
        """Return the nodes that need the volume, each with the pods that use it there."""
        if volume is None or volume.spec.csi is None or volume.spec.claim_ref is None:
            return {}
        if not is_attachable(self._caches.drivers.get("", volume.spec.csi.driver)):
            return {}
        reference = volume.spec.claim_ref
        claim: PersistentVolumeClaim | None = self._caches.claims.get(reference.namespace, reference.name)
        if claim is None or claim.metadata.uid != reference.uid or bound_volume(claim) != volume.metadata.name:
            return {}
        nodes: dict[str, list[Pod]] = {}
        for pod in self._caches.pods.by_index(PODS_BY_CLAIM, f"{reference.namespace}/{reference.name}"):
            if needs_volumes(pod) and uses_claim(pod, claim) and is_managed(self.node(pod.spec.node_name)):
                nodes.setdefault(pod.spec.node_name, []).append(pod)
        return nodes

    def volumes_of_pod(self, pod: Pod) -> Iterable[str]:
        """Return the volumes bound to the pod's claims."""
        for use in claim_uses(pod):
            claim: PersistentVolumeClaim | None = self._caches.claims.get(pod.metadata.namespace, use.name)
            if claim is None or (use.volume.ephemeral is not None and not is_claim_for_pod(claim, pod)):
                continue
            if name := bound_volume(claim):
                yield name

    def volumes_on(self, node: str) -> Iterable[str]:
        """Return the volumes that are attached to a node or needed by its pods."""
        names = {name: None for one in self.attachments_on(node) for name in volume_of(one)}
        for pod in self._caches.pods.by_index(NODE, node):
            names |= dict.fromkeys(self.volumes_of_pod(pod))
        return names

    def volumes_of_driver(self, driver: str) -> Iterable[str]:
        """Return the volumes of a CSI driver."""
        return [one.metadata.name for one in self._caches.volumes.by_index(VOLUMES_BY_DRIVER, driver)]


def needs_volumes(pod: Pod) -> bool:
    """Return True if the pod is scheduled and still uses its volumes."""
    return bool(pod.spec.node_name) and not has_released_volumes(pod)


def volume_of(attachment: VolumeAttachment) -> tuple[str, ...]:
    """Index attachments by volume; inline volumes have none."""
    name = attachment.spec.source.persistent_volume_name
    return (name,) if name else ()
