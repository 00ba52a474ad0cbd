"""Identity of objects and of the owners that references name. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.kinds import Resource

if TYPE_CHECKING:
    from kubeloop.controllers.garbage_collector.graph import Node


class Identity(NamedTuple):
    """Coordinates and UID of an object; the field order keeps kinds together when sorted."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"namespace: {self.namespace}, name: {self.name}, uid: {self.uid}"
        return f"[{self.api_version}/{self.kind}, {where}]"


def identity_of(resource: Resource, meta: ObjectMeta) -> Identity:
    """Return the identity of an object."""
    return Identity(resource.kind, resource.group_version, meta.namespace, meta.name, meta.uid)


def referred(reference: OwnerReference, namespace: str) -> Identity:
    """Return the identity of a reference's owner in this namespace."""
    return Identity(reference.kind, reference.api_version, namespace, reference.name, reference.uid)


def same_coordinates(reference: OwnerReference, identity: Identity) -> bool:
    """Return True if a reference names exactly this object, in any namespace."""
    return (
        reference.uid == identity.uid
        and reference.name == identity.name
        and reference.kind == identity.kind
        and reference.api_version == identity.api_version
    )


def is_reachable(identity: Identity, namespace: str) -> bool:
    """Return True if objects of a namespace may have this owner: it is in the same one, or cluster-scoped."""
    return identity.namespace in ("", namespace)


def split_dependents(dependents: Iterable[Node], owner: Identity) -> tuple[list[Node], list[Node]]:
    """Split dependents into those that name exactly this identity and those that differ; one may be in both."""
    matching, others = [], []
    for dependent in dependents:
        if not is_reachable(owner, dependent.identity.namespace):
            others.append(dependent)
            continue
        said = {same_coordinates(one, owner) for one in dependent.owners if one.uid == owner.uid}
        if True in said:
            matching.append(dependent)
        if False in said:
            others.append(dependent)
    return matching, others


def alternative(dependents: Iterable[Node], absent: Identity) -> Identity | None:
    """Return another identity that dependents give to the owner `absent`: the next one in order."""
    found = {
        _scoped(referred(reference, dependent.identity.namespace), absent)
        for dependent in dependents
        for reference in dependent.owners
        if reference.uid == absent.uid
    }
    found.discard(absent)
    following = [one for one in found if one > absent]
    return min(following or found, default=None)


def _scoped(identity: Identity, absent: Identity) -> Identity:
    """Clear the namespace if the absent identity shows that the kind is cluster-scoped."""
    same_kind = (identity.kind, identity.api_version) == (absent.kind, absent.api_version)
    return identity._replace(namespace="") if same_kind and not absent.namespace else identity
