# SPDX-License-Identifier: Apache-2.0
"""Reclaims a volume whose claim is gone: retains it, recycles it, or deletes it with its storage."""

from __future__ import annotations

from typing import Final

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.pods.volumes import MIGRATED_TO, PROVISIONED_BY
from kubeloop.client import Client
from kubeloop.controllers.persistentvolume_binder.binding_patches import IN_TREE_FINALIZER
from kubeloop.controllers.persistentvolume_binder.binding_writer import BindingWriter
from kubeloop.controllers.persistentvolume_binder.plugins import NoPlugin, Plugins
from kubeloop.controllers.persistentvolume_binder.provisioner import Provisioner, VolumeDeletionError, VolumeInUse
from kubeloop.controllers.persistentvolume_binder.recycler import VolumeRecycler
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.events.recorder import EventRecorder

FAILED_DELETE: Final = "VolumeFailedDelete"


class VolumeReclaimer:
    """Reclaims volumes; methods return True if there is more to do later."""

    def __init__(
        self,
        client: Client,
        writer: BindingWriter,
        claims: AssumeCache,
        parts: tuple[Plugins, VolumeRecycler],
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._writer = writer
        self._claims = claims
        self._plugins, self._recycling = parts
        self._recorder = recorder

    @property
    def provisioners(self) -> frozenset[str]:
        """Names of the built-in provisioners."""
        return self._plugins.names

    async def reclaim(self, volume: PersistentVolume) -> bool:
        """Apply the reclaim policy of a released volume."""
        if volume.metadata.annotations.get(MIGRATED_TO):
            return False  # the driver's external provisioner deletes it
        match volume.spec.persistent_volume_reclaim_policy:
            case "Retain":
                return False
            case "Delete":
                return await self._delete(volume)
            case "Recycle":
                fresh = await self._released(volume)
                return fresh is not None and await self._recycling.recycle(fresh)
            case _:
                message = "Volume has unrecognized PersistentVolumeReclaimPolicy"
                await self._writer.mark_volume_failed(volume, "VolumeUnknownReclaimPolicy", message)
                return False

    async def _delete(self, volume: PersistentVolume) -> bool:
        try:
            deleter = self._plugins.deleter_of(volume)
        except NoPlugin as error:
            await self._writer.mark_volume_failed(volume, FAILED_DELETE, str(error))
            return True
        if deleter is None:
            return False
        fresh = await self._released(volume)
        if fresh is None or is_storage_deleted(fresh):
            return False
        return await self._delete_with(deleter, fresh)

    async def _delete_with(self, deleter: Provisioner, volume: PersistentVolume) -> bool:
        try:
            await deleter.delete(volume)
        except VolumeInUse as error:
            self._recorder.event(volume, "Normal", "VolumeDelete", str(error))
            return True
        except VolumeDeletionError as error:
            await self._writer.mark_volume_failed(volume, FAILED_DELETE, str(error))
            return True
        kept = [one for one in volume.metadata.finalizers if one != IN_TREE_FINALIZER]
        try:
            if len(kept) < len(volume.metadata.finalizers):
                volume = await self._writer.change_volume(volume, {"metadata": {"finalizers": kept}})
            if volume.metadata.deletion_timestamp is None:
                this_one = Preconditions(uid=volume.metadata.uid)
                await self._client.delete(PersistentVolume, volume.metadata.name, preconditions=this_one)
        except NotFound:
            pass
        return False

    async def _released(self, volume: PersistentVolume) -> PersistentVolume | None:
        """Return the volume from the server if it is still released, else None."""
        try:
            fresh = await self._client.get(PersistentVolume, volume.metadata.name)
        except NotFound:
            return None
        reference = fresh.spec.claim_ref
        if fresh.metadata.uid != volume.metadata.uid or reference is None:
            return None
        claim = self._claims.get(reference.namespace, reference.name)
        return fresh if is_volume_released(fresh, claim) else None


def is_storage_deleted(volume: PersistentVolume) -> bool:
    """Return True if the storage of a provisioned volume is deleted and the volume only waits for other finalizers."""
    meta = volume.metadata
    return (
        meta.deletion_timestamp is not None
        and PROVISIONED_BY in meta.annotations
        and IN_TREE_FINALIZER not in meta.finalizers
    )


def is_volume_released(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> bool:
    """Return True if the volume's claim is gone or has another volume."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return False
    if claim is None or claim.metadata.uid != reference.uid:
        return True
    return claim.spec.volume_name not in ("", volume.metadata.name)
