"""Claims and volumes of pods: which there are, what they are bound to, which volume would do for which claim. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, TopologySelectorTerm
from kubeloop.api.placement import node_selector_matches
from kubeloop.api.quantity import Quantity, parse_quantity
from kubeloop.api.selectors import SelectorError, from_label_selector

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_STORAGE: Final = "storage"


class ClaimName(NamedTuple):
    """A claim that a pod uses; an ephemeral one is made for the pod."""

    name: str
    ephemeral: bool


def claim_names(pod: Pod) -> Iterator[ClaimName]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimName(volume.persistent_volume_claim.claim_name, False)
        elif volume.ephemeral is not None:
            yield ClaimName(f"{pod.metadata.name}-{volume.name}", True)


def class_of(claim: PersistentVolumeClaim) -> str:
    """An old annotation counts more than the field."""
    return claim.metadata.annotations.get(_OLD_CLASS) or claim.spec.storage_class_name or ""


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(_OLD_CLASS) or volume.spec.storage_class_name


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and _BIND_COMPLETED in claim.metadata.annotations


def is_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether an ephemeral claim was made for this very pod."""
    return any(one.controller and one.uid == pod.metadata.uid for one in claim.metadata.owner_references)


def is_reachable(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    return affinity is None or affinity.required is None or node_selector_matches(affinity.required, node)


def size_of(claim: PersistentVolumeClaim) -> Quantity:
    requests = claim.spec.resources.requests if claim.spec.resources is not None else {}
    return parse_quantity(requests.get(_STORAGE, "0"))


def matching_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], node: Node, taken: Collection[str]
) -> PersistentVolume | None:
    """The volume that waits for this claim, or else the smallest that would do and can be reached from the node."""
    smallest: PersistentVolume | None = None
    for volume in volumes:
        if volume.metadata.name in taken or volume.metadata.deletion_timestamp is not None:
            continue
        reference = volume.spec.claim_ref
        is_meant = reference is not None and _is_meant(volume, claim)
        if (reference is not None and not is_meant) or not _is_enough(volume, claim):
            continue
        if is_meant:
            return volume if is_reachable(volume, node) else None
        is_better = smallest is None or _capacity(volume) < _capacity(smallest)
        if is_better and _would_do(volume, claim) and is_reachable(volume, node):
            smallest = volume
    return smallest


def in_topologies(terms: Collection[TopologySelectorTerm], node: Node) -> bool:
    """Whether volumes of a class may be made where the node is; without any terms, everywhere."""
    if not terms:
        return True
    return any(
        all(node.metadata.labels.get(one.key) in (one.values or ()) for one in term.match_label_expressions)
        for term in terms
        if term.match_label_expressions
    )


def _is_meant(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (meta.namespace, meta.name):
        return False
    return not reference.uid or reference.uid == meta.uid


def _is_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    same_mode = (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
    same_attributes = (volume.spec.volume_attributes_class_name or "") == (
        claim.spec.volume_attributes_class_name or ""
    )
    return same_mode and same_attributes and _capacity(volume) >= size_of(claim)


def _would_do(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.status.phase != "Available" or class_of_volume(volume) != class_of(claim):
        return False
    if claim.spec.selector is not None:
        try:
            if not from_label_selector(claim.spec.selector).matches(volume.metadata.labels):
                return False
        except SelectorError:
            return False
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def _capacity(volume: PersistentVolume) -> Quantity:
    return parse_quantity(volume.spec.capacity.get(_STORAGE, "0"))
