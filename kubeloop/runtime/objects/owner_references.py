# SPDX-License-Identifier: Apache-2.0
"""Owner references as controllers write them: on new objects, and as patches that adopt or release. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.api.kinds import Resource


def controller_reference(owner: Any, resource: Resource) -> OwnerReference:
    """Return a controller reference to an owner, with blockOwnerDeletion."""
    return OwnerReference(
        api_version=resource.group_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def adoption_patch(reference: OwnerReference, uid: str, finalizers: Iterable[str] = ()) -> dict[str, Any]:
    """Return a strategic merge patch that adopts the object with this UID and no namesake."""
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
    """Return a strategic merge patch that removes the owner from the object with this UID."""
    metadata: dict[str, Any] = {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
    if removed := list(finalizers):
        metadata["$deleteFromPrimitiveList/finalizers"] = removed
    return {"metadata": metadata}
