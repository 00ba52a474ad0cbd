"""Volumes of drivers, which somebody has to attach to a node before its pods can use them.

claim ─▶ volume ─▶ what the node calls it ─┬▶ status.volumesInUse: this agent says that it wants it, or has it mounted
                                           └▶ status.volumesAttached: a loop says that it is there, and will not leave
A pod begins when both lists have all its volumes: from then on nobody takes one away before the agent lets go of it.
Both lists are those of the API server: the first as it answered the agent's write, the second as read after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.pods.volumes import (
    CONTROLLER_ATTACHES,
    bound_volume,
    claim_uses,
    is_done_with_volumes,
    is_made_for,
    needs_attaching,
    unique_name,
)
from kubeloop.kubelet.volumes.reported_volumes import ReportedVolumes


class Cache(Protocol):
    """As far as it is read here."""

    def get(self, namespace: str, name: str) -> Any | None: ...


class Attachments:
    """Reads claims, volumes and drivers."""

    def __init__(self, claims: Cache, volumes: Cache, drivers: Cache) -> None:
        self._claims = claims
        self._volumes = volumes
        self._drivers = drivers
        self.reported = ReportedVolumes()

    def missing(self, pod: Pod, node: Node) -> tuple[str, ...]:
        """A pod's volumes that it can't use yet, by the pod's own names for them."""
        if not pod.spec.volumes or CONTROLLER_ATTACHES not in node.metadata.annotations:
            return ()
        listed = {one.name for one in node.status.volumes_attached} & set(node.status.volumes_in_use)
        there = {one for one in listed if self.reported.has(node.metadata.name, one)}
        return tuple(name for name, unique in self._needed(pod) if unique not in there)

    def needed(self, pod: Pod, node: Node) -> tuple[str, ...]:
        """A pod's volumes that the attach/detach controller attaches, by the pod's own names for them."""
        if CONTROLLER_ATTACHES not in node.metadata.annotations:
            return ()
        return tuple(name for name, _ in self._needed(pod))

    def in_use(self, pods: Iterable[Pod]) -> tuple[str, ...]:
        """What the pods of a node use or are about to."""
        wanted = (pod for pod in pods if pod.spec.volumes and not is_done_with_volumes(pod))
        return tuple(sorted({unique for pod in wanted for _, unique in self._needed(pod)}))

    def _needed(self, pod: Pod) -> Iterator[tuple[str, str]]:
        for use in claim_uses(pod):
            claim: PersistentVolumeClaim | None = self._claims.get(pod.metadata.namespace, use.name)
            if claim is None or (use.volume.ephemeral is not None and not is_made_for(claim, pod)):
                continue
            volume: PersistentVolume | None = self._volumes.get("", bound_volume(claim))
            if volume is None or volume.spec.csi is None:
                continue
            if needs_attaching(self._drivers.get("", volume.spec.csi.driver)):
                yield use.volume.name, unique_name(volume.spec.csi)
