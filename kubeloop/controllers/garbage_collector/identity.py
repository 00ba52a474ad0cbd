"""Where an object is, as its dependents say it: the coordinates that an owner reference has to match. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.kinds import Resource

if TYPE_CHECKING:
    from kubeloop.controllers.garbage_collector.graph import Node


class Identity(NamedTuple):
    """An object with all that tells it from others; in an order by which kinds stay together."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"namespace: {self.namespace}, name: {self.name}, uid: {self.uid}"
        return f"[{self.api_version}/{self.kind}, {where}]"


def identity_of(resource: Resource, meta: ObjectMeta) -> Identity:
    return Identity(resource.kind, resource.group_version, meta.namespace, meta.name, meta.uid)


def referred(reference: OwnerReference, namespace: str) -> Identity:
    """The owner that a reference means, if it lives in this namespace."""
    return Identity(reference.kind, reference.api_version, namespace, reference.name, reference.uid)


def same_coordinates(reference: OwnerReference, identity: Identity) -> bool:
    """Whether a reference names exactly this object, wherever it lives."""
    return (
        reference.uid == identity.uid
        and reference.name == identity.name
        and reference.kind == identity.kind
        and reference.api_version == identity.api_version
    )


def is_reachable(identity: Identity, namespace: str) -> bool:
    """Whether objects of a namespace may have this owner: it lives there too, or in none."""
    return identity.namespace in ("", namespace)


def split_dependents(dependents: Iterable[Node], owner: Identity) -> tuple[list[Node], list[Node]]:
    """Those that name the owner by exactly this identity, and those that name it otherwise; one may do both."""
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
    """What else the owner may be that isn't there as `absent`: the next thing in order that a dependent calls it."""
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
    """Without a namespace, if the absent one shows that the kind has none."""
    same_kind = (identity.kind, identity.api_version) == (absent.kind, absent.api_version)
    return identity._replace(namespace="") if same_kind and not absent.namespace else identity
