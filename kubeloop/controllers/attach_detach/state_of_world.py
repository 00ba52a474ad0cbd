# SPDX-License-Identifier: Apache-2.0
"""Derives from the caches which volumes are needed on which nodes, and which are attached.

A volume is identified by its unique name: that of its CSI driver and its handle. Several PersistentVolumes may have the
same one, and inline volumes of pods have no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import VolumeAttachment
from kubeloop.api.pods.csi_translation import csi_volume_of, translate_inline_volume
from kubeloop.api.pods.volumes import (
    ATTACHMENTS_BY_NODE,
    PODS_BY_CLAIM,
    bound_volume,
    claim_keys_of,
    claim_uses,
    has_released_volumes,
    is_attachable,
    is_claim_for_pod,
    node_of_attachment,
    unique_volume_name,
    uses_claim,
)
from kubeloop.controllers.attach_detach.names import is_managed
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE, depends_on, node_name_of

# Indexes of attachments by the PersistentVolume, or by the unique name of an inline volume.
_BY_VOLUME: Final = "volume"
_BY_INLINE_VOLUME: Final = "inline volume"
# Indexes of PersistentVolumes and of pods with inline volumes.
_BY_UNIQUE_NAME: Final = "unique volume name"
_BY_DRIVER: Final = "attachable driver"


class AttachDetachCaches(NamedTuple):
    """Informers that the controller reads from."""

    pods: Informer
    claims: Informer
    volumes: Informer
    attachments: Informer
    nodes: Informer
    drivers: Informer

    def add_indexers(self) -> None:
        """Add the indexes by which the state of the world is found."""
        self.pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
        self.pods.add_indexer(NODE, node_name_of)
        self.pods.add_indexer(_BY_UNIQUE_NAME, _inline_names_of)
        self.pods.add_indexer(_BY_DRIVER, _inline_drivers_of)
        self.volumes.add_indexer(_BY_UNIQUE_NAME, lambda volume: tuple(map(_unique_name, _csi_volumes(volume))))
        self.volumes.add_indexer(_BY_DRIVER, lambda volume: _drivers_of(_csi_volumes(volume)))
        self.attachments.add_indexer(_BY_VOLUME, _volume_of_attachment)
        self.attachments.add_indexer(_BY_INLINE_VOLUME, _inline_name_of_attachment)
        self.attachments.add_indexer(ATTACHMENTS_BY_NODE, node_of_attachment)


class DesiredVolume(NamedTuple):
    """Volume that a node needs, with its CSI source, and the pods that use it there."""

    volume: PersistentVolume
    is_inline: bool
    pods: list[Pod]


class StateOfWorld:
    """Desired and actual state of attachments, computed from the caches."""

    def __init__(self, caches: AttachDetachCaches) -> None:
        self._caches = caches
        # Unique names of PersistentVolumes and the reverse; kept after a volume is gone, until it is detached.
        self._names: dict[str, str] = {}
        self._volumes: dict[str, set[str]] = {}

    def node(self, name: str) -> Node | None:
        """Return a node by name."""
        found: Node | None = self._caches.nodes.get("", name)
        return found

    def name_of_volume(self, volume: PersistentVolume) -> str | None:
        """Return the unique name of a PersistentVolume; None if it is not one of a CSI driver."""
        for one in _csi_volumes(volume):
            self._remember(volume.metadata.name, _unique_name(one))
        return self._names.get(volume.metadata.name)

    def name_of_bound_volume(self, claim: PersistentVolumeClaim) -> str | None:
        """Return the unique name of the volume that a claim is bound to; None if it is not known."""
        return self._name_of(bound_volume(claim))

    def name_of_attachment(self, attachment: VolumeAttachment) -> str | None:
        """Return the unique name of an attached volume; None if it was gone before this process started."""
        for name in _volume_of_attachment(attachment):
            return self._name_of(name)
        return next(iter(_inline_name_of_attachment(attachment)), None)

    def forget(self, name: str) -> None:
        """Drop the PersistentVolumes that are remembered for a unique name."""
        for volume in self._volumes.pop(name, ()):
            del self._names[volume]

    def attachment(self, name: str) -> VolumeAttachment | None:
        """Return a VolumeAttachment by name."""
        found: VolumeAttachment | None = self._caches.attachments.get("", name)
        return found

    def attachments_of(self, name: str) -> list[VolumeAttachment]:
        """Return the attachments of a volume."""
        caches = self._caches
        volumes = {one.metadata.name for one in caches.volumes.by_index(_BY_UNIQUE_NAME, name)}
        volumes |= self._volumes.get(name, set())
        found = [one for volume in sorted(volumes) for one in caches.attachments.by_index(_BY_VOLUME, volume)]
        return [*found, *caches.attachments.by_index(_BY_INLINE_VOLUME, name)]

    def attachments_on(self, node: str) -> Iterable[VolumeAttachment]:
        """Return the attachments on a node."""
        return self._caches.attachments.by_index(ATTACHMENTS_BY_NODE, node)

    def desired_nodes(self, name: str) -> dict[str, DesiredVolume]:
        """Return the nodes that need the volume, each with the volume as it is needed there."""
        nodes: dict[str, DesiredVolume] = {}
        for volume, is_inline, pod in (*self._claim_users(name), *self._inline_users(name)):
            if needs_volumes(pod) and is_managed(self.node(pod.spec.node_name)):
                nodes.setdefault(pod.spec.node_name, DesiredVolume(volume, is_inline, [])).pods.append(pod)
        return nodes

    def volumes_of_pod(self, pod: Pod) -> Iterator[tuple[str, PersistentVolume]]:
        """Yield the unique names of a pod's volumes, and the volumes with their CSI sources."""
        for use in claim_uses(pod):
            claim: PersistentVolumeClaim | None = self._caches.claims.get(pod.metadata.namespace, use.name)
            if claim is None or (use.volume.ephemeral is not None and not is_claim_for_pod(claim, pod)):
                continue
            bound: PersistentVolume | None = self._caches.volumes.get("", bound_volume(claim))
            if bound is not None:
                yield from ((_unique_name(one), one) for one in _csi_volumes(bound))
        yield from ((_unique_name(one), one) for one in _inline_volumes(pod))

    def volumes_on(self, node: str) -> Iterable[str]:
        """Return the unique names of the volumes that are attached to a node or needed by its pods."""
        names = {name: None for one in self.attachments_on(node) if (name := self.name_of_attachment(one)) is not None}
        for pod in self._caches.pods.by_index(NODE, node):
            names |= {name: None for name, _ in self.volumes_of_pod(pod)}
        return names

    def volumes_of_driver(self, driver: str) -> Iterable[str]:
        """Return the unique names of the volumes of a CSI driver."""
        volumes = [self.name_of_volume(one) for one in self._caches.volumes.by_index(_BY_DRIVER, driver)]
        pods = self._caches.pods.by_index(_BY_DRIVER, driver)
        return dict.fromkeys((*filter(None, volumes), *(name for pod in pods for name in _inline_names_of(pod))))

    def _claim_users(self, name: str) -> Iterator[tuple[PersistentVolume, bool, Pod]]:
        """Yield the pods that use a volume by a claim, each with the PersistentVolume."""
        for volume in self._caches.volumes.by_index(_BY_UNIQUE_NAME, name):
            reference = volume.spec.claim_ref
            if reference is None or not self._is_attachable(volume):
                continue
            claim: PersistentVolumeClaim | None = self._caches.claims.get(reference.namespace, reference.name)
            if claim is None or claim.metadata.uid != reference.uid or bound_volume(claim) != volume.metadata.name:
                continue
            for one in _csi_volumes(volume):
                for pod in self._caches.pods.by_index(PODS_BY_CLAIM, f"{reference.namespace}/{reference.name}"):
                    if uses_claim(pod, claim):
                        yield one, False, pod

    def _inline_users(self, name: str) -> Iterator[tuple[PersistentVolume, bool, Pod]]:
        """Yield the pods that use a volume inline, each with the translated volume."""
        for pod in self._caches.pods.by_index(_BY_UNIQUE_NAME, name):
            volume = next((one for one in _inline_volumes(pod) if _unique_name(one) == name), None)
            if volume is not None and self._is_attachable(volume):
                yield volume, True, pod

    def _is_attachable(self, volume: PersistentVolume) -> bool:
        return all(is_attachable(self._caches.drivers.get("", driver)) for driver in _drivers_of(_csi_volumes(volume)))

    def _name_of(self, volume: str) -> str | None:
        found: PersistentVolume | None = self._caches.volumes.get("", volume) if volume else None
        return self._names.get(volume) if found is None else self.name_of_volume(found)

    def _remember(self, volume: str, name: str) -> None:
        before = self._names.get(volume)
        if before == name:
            return
        if before is not None:
            self._volumes[before].discard(volume)
        self._names[volume] = name
        self._volumes.setdefault(name, set()).add(volume)


def needs_volumes(pod: Pod) -> bool:
    """Return True if the pod is scheduled and still uses its volumes."""
    return bool(pod.spec.node_name) and not has_released_volumes(pod)


def _csi_volumes(volume: PersistentVolume) -> Iterable[PersistentVolume]:
    """Return the volume with its CSI source, if it has one."""
    found = csi_volume_of(volume)
    return () if found is None else (found,)


def _inline_volumes(pod: Pod) -> Sequence[PersistentVolume]:
    """Return the translated in-tree volumes of a pod."""
    found = [translate_inline_volume(volume, pod.metadata.namespace) for volume in pod.spec.volumes]
    return [one for one in found if one is not None]


_volumes_part: Final = attrgetter("spec.volumes")


@depends_on(_volumes_part)
def _inline_names_of(pod: Pod) -> tuple[str, ...]:
    return tuple(map(_unique_name, _inline_volumes(pod)))


@depends_on(_volumes_part)
def _inline_drivers_of(pod: Pod) -> tuple[str, ...]:
    volumes = _inline_volumes(pod)
    return _drivers_of(volumes) if volumes else ()


def _unique_name(volume: PersistentVolume) -> str:
    assert volume.spec.csi is not None, "only volumes with a CSI source have a unique name"
    return unique_volume_name(volume.spec.csi)


def _drivers_of(volumes: Iterable[PersistentVolume]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.spec.csi.driver for one in volumes if one.spec.csi is not None))


def _volume_of_attachment(attachment: VolumeAttachment) -> tuple[str, ...]:
    name = attachment.spec.source.persistent_volume_name
    return (name,) if name else ()


def _inline_name_of_attachment(attachment: VolumeAttachment) -> tuple[str, ...]:
    spec = attachment.spec.source.inline_volume_spec
    return (unique_volume_name(spec.csi),) if spec is not None and spec.csi is not None else ()
