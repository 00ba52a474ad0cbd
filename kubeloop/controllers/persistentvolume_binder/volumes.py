# SPDX-License-Identifier: Apache-2.0
"""Syncs one volume: available, bound, or released and then reclaimed by its policy."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from kubeloop.api.pods.volumes import PROVISIONED_BY, has_same_volume_mode
from kubeloop.client import Client
from kubeloop.controllers.persistentvolume_binder.binding_patches import OVER, migration_annotations, volume_finalizers
from kubeloop.controllers.persistentvolume_binder.binding_writer import BindingWriter
from kubeloop.controllers.persistentvolume_binder.reclaimer import VolumeReclaimer
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.events.recorder import EventRecorder


class VolumeReconciler:
    """Reconciles volumes; returns True if a volume waits for something without an event."""

    def __init__(
        self,
        client: Client,
        writer: BindingWriter,
        claims: AssumeCache,
        reclaiming: VolumeReclaimer,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._writer = writer
        self._claims = claims
        self._reclaiming = reclaiming
        self._recorder = recorder

    async def reconcile(self, volume: PersistentVolume) -> bool:
        """Sync one volume; returns True if it waits."""
        volume = await self._writer.change_volume(volume, self._corrections(volume))
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            await self._writer.set_volume_phase(volume, "Available")
            return False
        claim = await self._claim_of(volume, reference)
        if claim is None:
            return await self._release(volume)
        if not claim.spec.volume_name:
            return self._check_mode(volume, claim)  # the claim's own sync completes the binding
        if claim.spec.volume_name == volume.metadata.name:
            await self._writer.set_volume_phase(volume, "Bound")
            return False
        return await self._handle_rebound_claim(volume)

    def _corrections(self, volume: PersistentVolume) -> dict[str, Any] | None:
        changes: dict[str, Any] = {}
        if moved := migration_annotations(volume.metadata.annotations, False):
            changes["annotations"] = moved
        finalizers = volume_finalizers(volume, self._reclaiming.provisioners)
        if finalizers is not None and (volume.metadata.deletion_timestamp is None or _only_drops(volume, finalizers)):
            changes["finalizers"] = finalizers
        return {"metadata": changes} if changes else None

    async def _claim_of(self, volume: PersistentVolume, reference: ObjectReference) -> PersistentVolumeClaim | None:
        """Return the claim that the volume refers to, by UID.

        The server is asked if the cache and the volume's phase contradict each other: before a volume is released, and
        before a released one is bound again. Otherwise a replica with an old cache of claims would undo the release.
        """
        claim: PersistentVolumeClaim | None = self._claims.get(reference.namespace, reference.name)
        is_over = volume.status.phase in OVER
        if (claim is None) != is_over or (claim is not None and claim.metadata.uid != reference.uid):
            try:
                claim = await self._client.get(PersistentVolumeClaim, reference.name, reference.namespace)
            except NotFound:
                return None
        return claim if claim is not None and claim.metadata.uid == reference.uid else None

    async def _release(self, volume: PersistentVolume) -> bool:
        if volume.status.phase not in OVER:
            volume = await self._writer.set_volume_phase(volume, "Released")
        return await self._reclaiming.reclaim(volume)

    def _check_mode(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        if has_same_volume_mode(volume, claim):
            return False
        why = "due to incompatible volumeMode."
        to_claim = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.metadata.name}" {why}'
        self._recorder.event(volume, "Warning", "VolumeMismatch", to_claim)
        to_volume = f'Cannot bind PersistentVolume "{volume.metadata.name}" to requested PersistentVolumeClaim {why}'
        self._recorder.event(claim, "Warning", "VolumeMismatch", to_volume)
        return True

    async def _handle_rebound_claim(self, volume: PersistentVolume) -> bool:
        """Release a volume whose claim has another one: delete it if it was provisioned, else unbind it."""
        was_made = PROVISIONED_BY in volume.metadata.annotations
        if was_made and volume.spec.persistent_volume_reclaim_policy == "Delete":
            return await self._release(volume)
        await self._writer.unbind(volume)
        return False


def _only_drops(volume: PersistentVolume, finalizers: list[str]) -> bool:
    """Return True if no finalizer is added, which is not allowed during deletion."""
    return set(finalizers) <= set(volume.metadata.finalizers)
