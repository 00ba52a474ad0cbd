# SPDX-License-Identifier: Apache-2.0
"""Decides the deletion policy and builds patches, given the state of an object's owners. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.controllers.garbage_collector.graph import FOREGROUND, ORPHAN


class OwnerState(Enum):
    """State of an owner."""

    SOLID = "exists and keeps its dependents"
    DANGLING = "does not exist"
    WAITING = "exists and waits for the deletion of its dependents"


@dataclass(slots=True)
class Owners:
    """References of an object by the state of their owners."""

    solid: list[OwnerReference] = field(default_factory=list)
    dangling: list[OwnerReference] = field(default_factory=list)
    waiting: list[OwnerReference] = field(default_factory=list)

    def add(self, reference: OwnerReference, standing: OwnerState) -> None:
        """Add a reference."""
        match standing:
            case OwnerState.SOLID:
                self.solid.append(reference)
            case OwnerState.DANGLING:
                self.dangling.append(reference)
            case OwnerState.WAITING:
                self.waiting.append(reference)

    def removable_uids(self) -> set[str]:
        """Return the UIDs of owners that don't keep the object and whose references should be removed."""
        return {one.uid for one in (*self.dangling, *self.waiting)}


def propagation_policy(meta: ObjectMeta, owners: Owners, has_dependents: bool) -> str:
    """Return the propagation policy to delete an object without a solid owner."""
    if owners.waiting and has_dependents:
        return "Foreground"  # its own dependents must be gone before the owner that waits for it
    if ORPHAN in meta.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in meta.finalizers else "Background"


def strategic_release(meta: ObjectMeta, owner_uids: Iterable[str]) -> dict[str, Any]:
    """Build a strategic merge patch that removes the references to some owners."""
    removed = [{"$patch": "delete", "uid": uid} for uid in sorted(owner_uids)]
    return {"metadata": {"uid": meta.uid, "ownerReferences": removed}}


def strategic_unblock(meta: ObjectMeta) -> dict[str, Any]:
    """Build a strategic merge patch that clears blockOwnerDeletion."""
    freed = [_plain(_unblocked(one)) for one in meta.owner_references if one.block_owner_deletion]
    return {"metadata": {"uid": meta.uid, "ownerReferences": freed}}


def merged_release(meta: ObjectMeta, owner_uids: Iterable[str]) -> dict[str, Any]:
    """Build the same as a merge patch, which replaces the whole list, for kinds without strategic merge patch."""
    gone = set(owner_uids)
    return _merged(meta, [one for one in meta.owner_references if one.uid not in gone])


def merged_unblock(meta: ObjectMeta) -> dict[str, Any]:
    """Build a merge patch that clears blockOwnerDeletion."""
    return _merged(meta, map(_unblocked, meta.owner_references))


def without_finalizer(meta: ObjectMeta, finalizer: str) -> dict[str, Any]:
    """Build a merge patch that removes a finalizer from the object if it is unchanged."""
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
