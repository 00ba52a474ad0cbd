"""Owner references as loops write them: on what they create, and as patches that adopt or release. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.api.kinds import Resource


def controller_reference(owner: Any, resource: Resource) -> OwnerReference:
    """Says that the owner, which is of this kind, manages an object and outlives it."""
    return OwnerReference(
        api_version=resource.group_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def adoption_patch(reference: OwnerReference, uid: str, finalizers: Iterable[str] = ()) -> dict[str, Any]:
    """A strategic patch that makes the referred one the manager of the object with this UID, and of no namesake."""
    metadata: dict[str, Any] = {
        "uid": uid,
        "ownerReferences": [
            {
                "apiVersion": reference.api_version,
                "kind": reference.kind,
                "name": reference.name,
                "uid": reference.uid,
                "controller": reference.controller,
                "blockOwnerDeletion": reference.block_owner_deletion,
            }
        ],
    }
    if added := list(finalizers):
        metadata["finalizers"] = added
    return {"metadata": metadata}


def release_patch(owner_uid: str, uid: str, finalizers: Iterable[str] = ()) -> dict[str, Any]:
    """A strategic patch that takes the object with this UID from its owner."""
    metadata: dict[str, Any] = {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
    if removed := list(finalizers):
        metadata["$deleteFromPrimitiveList/finalizers"] = removed
    return {"metadata": metadata}
