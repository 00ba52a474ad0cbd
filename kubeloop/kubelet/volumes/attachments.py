# SPDX-License-Identifier: Apache-2.0
"""Volumes of CSI drivers that must be attached to a node before its pods can use them.

claim ─▶ volume ─▶ unique volume name ─┬▶ status.volumesInUse: this agent wants it or has it mounted
                                       └▶ status.volumesAttached: the attach/detach controller has attached it

A pod starts when both lists contain all its volumes: from then on none is detached before the agent drops it.
Both lists are those of the API server: the first as it answered the agent's write, the second as read after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.pods.csi_translation import csi_volume_of, translate_inline_volume
from kubeloop.api.pods.volumes import (
    CONTROLLER_MANAGED_ATTACH_ANNOTATION,
    bound_volume,
    claim_uses,
    has_released_volumes,
    is_attachable,
    is_claim_for_pod,
    unique_volume_name,
)
from kubeloop.kubelet.volumes.reported_volumes import ReportedVolumes


class AttachmentLister(Protocol):
    """Lister, as far as it is needed here."""

    def get(self, namespace: str, name: str) -> Any | None:
        """Return an object, or None."""


class VolumeAttachmentsView:
    """Determines attachable volumes from claims, volumes and drivers."""

    def __init__(
        self,
        claims: AttachmentLister,
        volumes: AttachmentLister,
        drivers: AttachmentLister,
        reported_volumes: ReportedVolumes,
    ) -> None:
        self._claims = claims
        self._volumes = volumes
        self._drivers = drivers
        self._reported_volumes = reported_volumes

    def unattached_volumes(self, pod: Pod, node: Node) -> tuple[str, ...]:
        """Return the names of a pod's volumes that are not attached yet."""
        if not pod.spec.volumes or CONTROLLER_MANAGED_ATTACH_ANNOTATION not in node.metadata.annotations:
            return ()
        listed = {one.name for one in node.status.volumes_attached} & set(node.status.volumes_in_use)
        there = {one for one in listed if self._reported_volumes.is_reported(node.metadata.name, one)}
        return tuple(name for name, unique in self._needed(pod) if unique not in there)

    def attachable_volumes(self, pod: Pod, node: Node) -> tuple[str, ...]:
        """Return the names of a pod's volumes that the attach/detach controller attaches."""
        if CONTROLLER_MANAGED_ATTACH_ANNOTATION not in node.metadata.annotations:
            return ()
        return tuple(name for name, _ in self._needed(pod))

    def volumes_in_use(self, pods: Iterable[Pod]) -> tuple[str, ...]:
        """Return the unique names of the volumes that the pods use or are about to use."""
        wanted = (pod for pod in pods if pod.spec.volumes and not has_released_volumes(pod))
        return tuple(sorted({unique for pod in wanted for _, unique in self._needed(pod)}))

    def _needed(self, pod: Pod) -> Iterator[tuple[str, str]]:
        for use in claim_uses(pod):
            claim: PersistentVolumeClaim | None = self._claims.get(pod.metadata.namespace, use.name)
            if claim is None or (use.volume.ephemeral is not None and not is_claim_for_pod(claim, pod)):
                continue
            volume: PersistentVolume | None = self._volumes.get("", bound_volume(claim))
            if volume is not None:
                yield from self._names(use.volume.name, csi_volume_of(volume))
        for inline in pod.spec.volumes:
            yield from self._names(inline.name, translate_inline_volume(inline, pod.metadata.namespace))

    def _names(self, name: str, volume: PersistentVolume | None) -> Iterator[tuple[str, str]]:
        """Yield the names of a volume, if it is one of a driver that attaches."""
        source = volume.spec.csi if volume is not None else None
        if source is not None and is_attachable(self._drivers.get("", source.driver)):
            yield name, unique_volume_name(source)
