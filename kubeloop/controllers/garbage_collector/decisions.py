"""What becomes of an object, given how its owners stand. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.controllers.garbage_collector.graph import FOREGROUND, ORPHAN


class Standing(Enum):
    """How an owner stands."""

    SOLID = "it is there, and keeps what it owns"
    DANGLING = "it is not there"
    WAITING = "it is there, and waits for what it owns to be deleted first"


@dataclass(slots=True)
class Owners:
    """An object's references by how their owners stand."""

    solid: list[OwnerReference] = field(default_factory=list)
    dangling: list[OwnerReference] = field(default_factory=list)
    waiting: list[OwnerReference] = field(default_factory=list)

    def put(self, reference: OwnerReference, standing: Standing) -> None:
        match standing:
            case Standing.SOLID:
                self.solid.append(reference)
            case Standing.DANGLING:
                self.dangling.append(reference)
            case Standing.WAITING:
                self.waiting.append(reference)

    def let_go(self) -> set[str]:
        """The uids of owners that are no reason to keep the object, and that it should no longer name."""
        return {one.uid for one in (*self.dangling, *self.waiting)}


def policy_of(meta: ObjectMeta, owners: Owners, has_dependents: bool) -> str:
    """How an object without a solid owner is deleted."""
    if owners.waiting and has_dependents:
        return "Foreground"  # its own dependents have to be gone before the owner that waits for it
    if ORPHAN in meta.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in meta.finalizers else "Background"


def strategic_release(meta: ObjectMeta, owner_uids: Iterable[str]) -> dict[str, Any]:
    """A strategic patch that takes the object from some owners."""
    removed = [{"$patch": "delete", "uid": uid} for uid in sorted(owner_uids)]
    return {"metadata": {"uid": meta.uid, "ownerReferences": removed}}


def strategic_unblock(meta: ObjectMeta) -> dict[str, Any]:
    """A strategic patch after which the object blocks none of its owners."""
    freed = [_plain(_unblocked(one)) for one in meta.owner_references if one.block_owner_deletion]
    return {"metadata": {"uid": meta.uid, "ownerReferences": freed}}


def merged_release(meta: ObjectMeta, owner_uids: Iterable[str]) -> dict[str, Any]:
    """The same as a merge patch, for kinds without strategic patches: it replaces the whole list."""
    gone = set(owner_uids)
    return _merged(meta, [one for one in meta.owner_references if one.uid not in gone])


def merged_unblock(meta: ObjectMeta) -> dict[str, Any]:
    return _merged(meta, map(_unblocked, meta.owner_references))


def without_finalizer(meta: ObjectMeta, finalizer: str) -> dict[str, Any]:
    """A merge patch that takes a finalizer from the object, if it is still as it was seen."""
    left = [one for one in meta.finalizers if one != finalizer]
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left}}


def _merged(meta: ObjectMeta, references: Iterable[OwnerReference]) -> dict[str, Any]:
    listed = [_plain(one) for one in references]
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": listed}}


def _unblocked(reference: OwnerReference) -> OwnerReference:
    if not reference.block_owner_deletion:
        return reference
    return msgspec.structs.replace(reference, block_owner_deletion=False)


def _plain(reference: OwnerReference) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller is not None:
        plain["controller"] = reference.controller
    if reference.block_owner_deletion is not None:
        plain["blockOwnerDeletion"] = reference.block_owner_deletion
    return plain
