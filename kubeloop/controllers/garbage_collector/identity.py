# SPDX-License-Identifier: Apache-2.0
"""Identity of objects and of the owners that references name. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.kinds import Resource

if TYPE_CHECKING:
    from kubeloop.controllers.garbage_collector.graph import GraphNode


class ObjectIdentity(NamedTuple):
    """Coordinates and UID of an object; the field order keeps kinds together when sorted."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"namespace: {self.namespace}, name: {self.name}, uid: {self.uid}"
        return f"[{self.api_version}/{self.kind}, {where}]"


def identity_of(resource: Resource, meta: ObjectMeta) -> ObjectIdentity:
    """Return the identity of an object."""
    return ObjectIdentity(resource.kind, resource.group_version, meta.namespace, meta.name, meta.uid)


def owner_identity(reference: OwnerReference, namespace: str) -> ObjectIdentity:
    """Return the identity of a reference's owner in this namespace."""
    return ObjectIdentity(reference.kind, reference.api_version, namespace, reference.name, reference.uid)


def owner_reference_matches_coordinates(reference: OwnerReference, identity: ObjectIdentity) -> bool:
    """Return True if a reference names exactly this object, in any namespace."""
    return (
        reference.uid == identity.uid
        and reference.name == identity.name
        and reference.kind == identity.kind
        and reference.api_version == identity.api_version
    )


def is_reachable(identity: ObjectIdentity, namespace: str) -> bool:
    """Return True if objects of a namespace may have this owner: it is in the same one, or cluster-scoped."""
    return identity.namespace in ("", namespace)


def partition_dependents(
    dependents: Iterable[GraphNode], owner: ObjectIdentity
) -> tuple[list[GraphNode], list[GraphNode]]:
    """Split dependents into those that name exactly this identity and those that differ; one may be in both."""
    matching, others = [], []
    for dependent in dependents:
        if not is_reachable(owner, dependent.identity.namespace):
            others.append(dependent)
            continue
        said = {owner_reference_matches_coordinates(one, owner) for one in dependent.owners if one.uid == owner.uid}
        if True in said:
            matching.append(dependent)
        if False in said:
            others.append(dependent)
    return matching, others


def alternative_identity(dependents: Iterable[GraphNode], absent: ObjectIdentity) -> ObjectIdentity | None:
    """Return another identity that dependents give to the owner `absent`: the next one in order."""
    found = {
        _scoped(owner_identity(reference, dependent.identity.namespace), absent)
        for dependent in dependents
        for reference in dependent.owners
        if reference.uid == absent.uid
    }
    found.discard(absent)
    following = [one for one in found if one > absent]
    return min(following or found, default=None)


def _scoped(identity: ObjectIdentity, absent: ObjectIdentity) -> ObjectIdentity:
    """Clear the namespace if the absent identity shows that the kind is cluster-scoped."""
    same_kind = (identity.kind, identity.api_version) == (absent.kind, absent.api_version)
    return identity._replace(namespace="") if same_kind and not absent.namespace else identity
