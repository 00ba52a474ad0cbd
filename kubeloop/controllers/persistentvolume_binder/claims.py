# SPDX-License-Identifier: Apache-2.0
"""Syncs one claim: finds its volume, waits for it, or reports that it is lost."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.api.pods.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PODS_BY_CLAIM,
    SELECTED_NODE,
    capacity_of_volume,
    class_of_claim,
    class_of_volume,
    has_access_modes,
    has_released_volumes,
    has_same_attributes_class,
    has_same_volume_mode,
    has_storage_class,
    is_volume_bound_to_claim,
    requested_size,
)
from kubeloop.api.scalars.times import parse_time
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.controllers.persistentvolume_binder.binding_patches import OVER, migration_annotations
from kubeloop.controllers.persistentvolume_binder.binding_writer import BindingWriter
from kubeloop.controllers.persistentvolume_binder.dynamic_provisioner import DynamicProvisioner, current_claim
from kubeloop.controllers.persistentvolume_binder.metrics import DefaultClassMetrics
from kubeloop.controllers.persistentvolume_binder.volume_index import VolumeIndex
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer

_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class InvalidBinding(RuntimeError):
    """Raised if another client undid a binding and the volume is bound elsewhere."""


class ClaimReconciler:
    """Reconciles claims; returns True if a claim waits for something without an event."""

    def __init__(
        self,
        client: Client,
        writer: BindingWriter,
        caches: tuple[VolumeIndex, AssumeCache, Informer, Informer],  # volumes twice, classes, pods
        provisioning: DynamicProvisioner | None,
        recorder: EventRecorder,
        default_class_metrics: DefaultClassMetrics,
    ) -> None:
        self._default_class_metrics = default_class_metrics
        self._client = client
        self._writer = writer
        self._shelf, self._volumes, self._classes, self._pods = caches
        self._provisioning = provisioning
        self._recorder = recorder

    async def reconcile(self, claim: PersistentVolumeClaim) -> bool:
        """Sync one claim; returns True if it waits."""
        moved = migration_annotations(claim.metadata.annotations, True)
        claim = await self._writer.change_claim(claim, {"metadata": {"annotations": moved}} if moved else None)
        if BIND_COMPLETED in claim.metadata.annotations:
            return await self._sync_bound_claim(claim)
        return await (self._bind_requested_volume(claim) if claim.spec.volume_name else self._sync_unbound_claim(claim))

    async def _sync_unbound_claim(self, claim: PersistentVolumeClaim) -> bool:
        """Find any suitable volume, or provision one."""
        waits = is_delay_binding_mode(claim, self._classes.get("", class_of_claim(claim)))
        volume = self._shelf.find_best_match(claim, only_reserved=waits)
        if volume is not None:
            return await self._bind(volume, claim)
        if await self._assign_default_class(claim):
            return False  # the change enqueues the claim again
        if waits and SELECTED_NODE not in claim.metadata.annotations:
            self._tell_wait(claim)
        elif class_of_claim(claim):
            if self._provisioning is not None:
                await self._provisioning.provision(claim)
            return True
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self._recorder.event(claim, "Normal", "FailedBinding", message)
        return await self._stay_pending(claim)

    async def _bind_requested_volume(self, claim: PersistentVolumeClaim) -> bool:
        """Bind to the requested volume."""
        volume: PersistentVolume | None = self._volumes.get("", claim.spec.volume_name)
        if volume is None:
            return await self._stay_pending(claim)
        if volume.spec.claim_ref is None:
            if (mismatch := check_volume_satisfy_claim(volume, claim)) is None:
                return await self._bind(volume, claim)
            message = f'Cannot bind to requested volume "{volume.metadata.name}": {mismatch}'
            self._recorder.event(claim, "Warning", "VolumeMismatch", message)
        elif is_volume_bound_to_claim(volume, claim):
            return await self._bind(volume, claim)
        else:
            message = f'volume "{volume.metadata.name}" already bound to a different claim.'
            self._recorder.event(claim, "Warning", "FailedBinding", message)
            if BOUND_BY_CONTROLLER in claim.metadata.annotations:
                other = f"{volume.spec.claim_ref.namespace}/{volume.spec.claim_ref.name}"
                what = f'claim "{claim.metadata.namespace}/{claim.metadata.name}" to volume "{volume.metadata.name}"'
                raise InvalidBinding(f'invalid binding of {what}: volume already claimed by "{other}"')
        return await self._stay_pending(claim)

    async def _sync_bound_claim(self, claim: PersistentVolumeClaim) -> bool:
        """Check an existing binding."""
        if not claim.spec.volume_name:
            message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            await self._writer.mark_claim_lost(claim, "ClaimLost", message)
            return False
        volume = await self._own_volume(claim)
        if volume is None:
            message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            await self._writer.mark_claim_lost(claim, "ClaimLost", message)
        elif not is_bound_to_other_claim(volume, claim):
            return await self._bind(volume, claim)
        else:
            message = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._writer.mark_claim_lost(claim, "ClaimMisbound", message)
        return False

    async def _own_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the volume of a bound claim; the server is asked before a claim is declared lost."""
        volume: PersistentVolume | None = self._volumes.get("", claim.spec.volume_name)
        if volume is not None and not is_bound_to_other_claim(volume, claim):
            return volume
        if claim.status.phase == "Lost":
            return volume
        try:
            return await self._client.get(PersistentVolume, claim.spec.volume_name)
        except NotFound:
            return None

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        """Bind, and reserve the volume meanwhile so that no other claim takes it."""
        if volume.status.phase in OVER and await current_claim(self._client, claim) is None:
            return False  # the cache of claims is old; the claim was deleted and its volume released
        name = volume.metadata.name
        self._shelf.being_bound.add(name)
        try:
            await self._writer.bind(volume, claim)
        finally:
            self._shelf.being_bound.discard(name)
        return False

    async def _stay_pending(self, claim: PersistentVolumeClaim) -> bool:
        await self._writer.set_claim_phase(claim, "Pending")
        return True

    async def _assign_default_class(self, claim: PersistentVolumeClaim) -> bool:
        if has_storage_class(claim):
            return False
        default = default_class(self._classes.list())
        if default is None:
            return False
        try:
            await self._writer.change_claim(claim, {"spec": {"storageClassName": default.metadata.name}})
        except (ApiError, ClientError):
            self._default_class_metrics.failed.increment()
            raise
        self._default_class_metrics.assigned.increment()
        return True

    def _tell_wait(self, claim: PersistentVolumeClaim) -> None:
        users = self._pods.by_index(PODS_BY_CLAIM, f"{claim.metadata.namespace}/{claim.metadata.name}")
        pods = [one.metadata.name for one in users if not has_released_volumes(one) and not one.spec.node_name]
        if pods:
            what = f"{'pods' if len(pods) > 1 else 'pod'} {','.join(pods)}"
            self._recorder.event(claim, "Normal", "WaitForPodScheduled", f"waiting for {what} to be scheduled")
        else:
            message = "waiting for first consumer to be created before binding"
            self._recorder.event(claim, "Normal", "WaitForFirstConsumer", message)


def is_bound_to_other_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if the volume belongs to another claim."""
    return volume.spec.claim_ref is not None and volume.spec.claim_ref.uid != claim.metadata.uid


def is_delay_binding_mode(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> bool:
    """Return True if the scheduler chooses the volume together with a pod's node."""
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"


def is_default(storage_class: StorageClass) -> bool:
    """Return True if the class is a default."""
    annotations = storage_class.metadata.annotations
    return any(annotations.get(one) == "true" for one in _DEFAULT)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the newest default class; ties are broken by name."""
    defaults = sorted((one for one in classes if is_default(one)), key=lambda one: one.metadata.name)
    return max(defaults, key=_made_at, default=None)


def _made_at(storage_class: StorageClass) -> float:
    made = storage_class.metadata.creation_timestamp
    return parse_time(made).timestamp() if made is not None else 0.0


def check_volume_satisfy_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str | None:
    """Return the reason that a requested volume is unsuitable, or None."""
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if capacity_of_volume(volume).value() < requested_size(claim).value():
        return "requested PV is too small"
    if class_of_volume(volume) != class_of_claim(claim):
        return "storageClassName does not match"
    if not has_same_attributes_class(volume, claim):
        return "volumeAttributesClassName does not match"
    if not has_same_volume_mode(volume, claim):
        return "incompatible volumeMode"
    return None if has_access_modes(volume, claim) else "incompatible accessMode"
