# SPDX-License-Identifier: Apache-2.0
"""Matching of volumes to claims on a node, and topology of provisioning. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm
from kubeloop.api.pods.placement import node_selector_matches
from kubeloop.api.pods.volumes import (
    BIND_COMPLETED,
    capacity_of_volume,
    class_of_claim,
    class_of_volume,
    has_access_modes,
    has_same_attributes_class,
    has_same_volume_mode,
    is_volume_bound_to_claim,
    requested_size,
)
from kubeloop.api.selectors import SelectorError, label_selector_as_selector


def is_claim_bound(claim: PersistentVolumeClaim) -> bool:
    """Return True if the claim is fully bound."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_volume_reachable(volume: PersistentVolume, node: Node) -> bool:
    """Return True if the node matches the volume's node affinity."""
    affinity = volume.spec.node_affinity
    return affinity is None or affinity.required is None or node_selector_matches(affinity.required, node)


def find_matching_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], node: Node, taken: Collection[str]
) -> PersistentVolume | None:
    """Return the volume reserved for the claim, or else the smallest suitable one reachable from the node."""
    smallest: PersistentVolume | None = None
    for volume in volumes:
        if volume.metadata.name in taken or volume.metadata.deletion_timestamp is not None:
            continue
        is_meant = is_volume_bound_to_claim(volume, claim)
        if (volume.spec.claim_ref is not None and not is_meant) or not _has_size_and_mode(volume, claim):
            continue
        if is_meant:
            return volume if is_volume_reachable(volume, node) else None
        is_better = smallest is None or capacity_of_volume(volume) < capacity_of_volume(smallest)
        if is_better and _is_suitable(volume, claim) and is_volume_reachable(volume, node):
            smallest = volume
    return smallest


def matches_topology_terms(terms: Collection[TopologySelectorTerm], node: Node) -> bool:
    """Return True if volumes of a class may be provisioned for the node; without terms, everywhere."""
    if not terms:
        return True
    return any(
        all(node.metadata.labels.get(one.key) in (one.values or ()) for one in term.match_label_expressions)
        for term in terms
        if term.match_label_expressions
    )


def _has_size_and_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    alike = has_same_volume_mode(volume, claim) and has_same_attributes_class(volume, claim)
    return alike and capacity_of_volume(volume) >= requested_size(claim)


def _is_suitable(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.status.phase != "Available" or class_of_volume(volume) != class_of_claim(claim):
        return False
    if claim.spec.selector is not None:
        try:
            if not label_selector_as_selector(claim.spec.selector).matches(volume.metadata.labels):
                return False
        except SelectorError:
            return False
    return has_access_modes(volume, claim)
