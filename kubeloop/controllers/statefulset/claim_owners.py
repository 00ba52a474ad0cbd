"""Writes owner references of claims by a patch, or by a read and a replacement if only update is allowed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.errors import Forbidden, conflict
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.client import Client


class ClaimOwnerWriter:
    """Writer of owner references; after the first Forbidden it no longer patches, as upstream's role requires."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._may_patch = True

    async def write(self, claim: PersistentVolumeClaim, owners: Sequence[OwnerReference]) -> PersistentVolumeClaim:
        """Set exactly these owners; fails if the claim was written in between."""
        if self._may_patch:
            try:
                return await self._patch(claim, owners)
            except Forbidden:
                self._may_patch = False
        return await self._replace(claim, owners)

    async def _patch(self, claim: PersistentVolumeClaim, owners: Sequence[OwnerReference]) -> PersistentVolumeClaim:
        meta = claim.metadata
        unchanged = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": {**unchanged, "ownerReferences": codec.to_plain(owners) or None}}
        changed: PersistentVolumeClaim = await self._client.patch(
            PersistentVolumeClaim, meta.name, patch, meta.namespace
        )
        return changed

    async def _replace(self, claim: PersistentVolumeClaim, owners: Sequence[OwnerReference]) -> PersistentVolumeClaim:
        meta = claim.metadata
        fresh = await self._client.get(PersistentVolumeClaim, meta.name, meta.namespace)
        if fresh.metadata.resource_version != meta.resource_version:
            raise conflict("", "persistentvolumeclaims", meta.name)
        wanted = replace(fresh, metadata=replace(fresh.metadata, owner_references=tuple(owners)))
        changed: PersistentVolumeClaim = await self._client.update(wanted)
        return changed
