# SPDX-License-Identifier: Apache-2.0
"""Writes bindings step by step, each step with the evaluated version as precondition."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.kinds import Resource
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.persistentvolume_binder.binding_patches import (
    Patch,
    bind_claim_patch,
    bind_volume_patch,
    claim_status_patch,
    unbind_volume_patch,
)
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

VOLUMES: Resource = resource_of_class(PersistentVolume)
CLAIMS: Resource = resource_of_class(PersistentVolumeClaim)


class BindingWriter:
    """Changes volumes and claims; results are recorded at once, before a watch event."""

    def __init__(
        self, client: PatchOrUpdate, volumes: AssumeCache, claims: AssumeCache, recorder: EventRecorder
    ) -> None:
        self._client = client
        self._volumes = volumes
        self._claims = claims
        self._recorder = recorder

    async def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind the volume first: its claimRef reserves it, so that no other claim can take it."""
        volume = await self.change_volume(volume, bind_volume_patch(volume, claim))
        volume = await self.set_volume_phase(volume, "Bound")
        claim = await self.change_claim(claim, bind_claim_patch(claim, volume))
        await self.set_claim_phase(claim, "Bound", volume)

    async def unbind(self, volume: PersistentVolume) -> None:
        """Clear the binding of a volume and make it available."""
        volume = await self.change_volume(volume, unbind_volume_patch(volume))
        await self.set_volume_phase(volume, "Available")

    async def set_volume_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        """Set the phase of a volume if it differs."""
        if volume.status.phase == phase:
            return volume
        status = {"phase": phase, "message": message or None}
        return await self.change_volume(volume, {"status": status}, "status")

    async def mark_volume_failed(self, volume: PersistentVolume, reason: str, message: str) -> PersistentVolume:
        """Set the phase Failed; the event is recorded once, when the phase changes."""
        if volume.status.phase == "Failed":
            return volume
        volume = await self.set_volume_phase(volume, "Failed", message)
        self._recorder.event(volume, "Warning", reason, message)
        return volume

    async def set_claim_phase(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        """Set the phase of a claim and the fields copied from its volume."""
        return await self.change_claim(claim, claim_status_patch(claim, phase, volume), "status")

    async def mark_claim_lost(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        """Set the phase Lost; the event is recorded once, when the phase changes."""
        if claim.status.phase != "Lost":
            claim = await self.set_claim_phase(claim, "Lost")
            self._recorder.event(claim, "Warning", reason, message)

    async def change_volume(
        self, volume: PersistentVolume, patch: Patch | None, subresource: str = ""
    ) -> PersistentVolume:
        """Patch a volume; does nothing without a patch."""
        if patch is None:
            return volume
        changed: PersistentVolume = self._volumes.assume(await self._change(VOLUMES, volume, patch, subresource))
        return changed

    async def change_claim(
        self, claim: PersistentVolumeClaim, patch: Patch | None, subresource: str = ""
    ) -> PersistentVolumeClaim:
        """Patch a claim; does nothing without a patch."""
        if patch is None:
            return claim
        changed: PersistentVolumeClaim = self._claims.assume(await self._change(CLAIMS, claim, patch, subresource))
        return changed

    async def _change(self, resource: Resource, obj: Any, patch: Patch, subresource: str) -> Any:
        meta = obj.metadata
        demands = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **demands}}
        return await self._client.patch(resource, meta.name, body, meta.namespace, subresource=subresource)
