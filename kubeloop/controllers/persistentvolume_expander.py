# SPDX-License-Identifier: Apache-2.0
"""Expands volumes of claims that request more: here for own host paths, else by an external resizer.

Watches: claims.
Owns: nothing.
Writes: the annotation that names the CSI driver that resizes a migrated in-tree volume; sizes of host paths of our own
  provisioner; removes the pre-resize annotation from volumes when their claim has grown.
Wakes itself: never.
Differs from upstream: grows directories of `kubeloop.io/host-path`, which have no size of their own. Flex volumes are
  left to an external resizer, like any other volume.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from kubeloop.api.pods.volumes import (
    CSI_DRIVERS,
    PROVISIONED_BY,
    STORAGE,
    capacity_of_volume,
    requested_size,
)
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "persistentvolume-expander-controller"
COMPONENT: Final = "volume_expand"  # source component of upstream's events
QUEUE: Final = "volume_expand"  # upstream's queue name, as dashboards know it
WORKERS: Final = 10  # as upstream
RESIZER: Final = "volume.kubernetes.io/storage-resizer"
PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
EXPANDABLE_PROVISIONER: Final = "kubeloop.io/host-path"  # a directory: only its recorded size changes
EXPANDING: Final = "ExternalExpanding"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    claims = context.informers.for_resource(resource_of_class(PersistentVolumeClaim))
    recorder = context.recorder.with_component(COMPONENT)
    reconciler = Reconciler(context.client, claims, recorder)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(claims, own_key, _has_grown)
    return controller


class ClaimNotBound(Exception):
    """Raised if the claim's volume is not bound to it; the binder will handle it."""


class Reconciler:
    """Expands claims by key."""

    def __init__(self, client: Client, claims: Informer, recorder: EventRecorder) -> None:
        self._client = client
        self._claims = claims
        self._recorder = recorder
        self._status = PatchOrUpdate(client)

    async def reconcile(self, key: ObjectKey) -> None:
        """Expand the volume of one claim, or delegate it to an external resizer."""
        claim: PersistentVolumeClaim | None = self._claims.get(*key)
        if claim is None or claim.status.phase != "Bound":
            return
        try:
            volume = await self._client.get(PersistentVolume, claim.spec.volume_name)
        except NotFound:
            return  # the claim will become Lost
        reference = volume.spec.claim_ref
        if reference is None or reference.uid != claim.metadata.uid:
            raise ClaimNotBound(f"persistent Volume is not bound to PVC being updated : {key}")
        is_noted = PRE_RESIZE_CAPACITY in volume.metadata.annotations
        if requested_size(claim) > capacity_of(claim) or is_noted:
            await self._expand(claim, volume)

    async def _expand(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        disk = in_tree_plugin(volume.spec)
        if disk is not None:
            message = f"CSI migration enabled for {disk}; waiting for external resizer to expand the pvc"
            self._recorder.event(claim, "Normal", EXPANDING, message)
            await self._name_resizer(claim, CSI_DRIVERS[disk])
        elif volume.metadata.annotations.get(PROVISIONED_BY) == EXPANDABLE_PROVISIONER:
            await self._grow(claim, volume)
        else:
            message = "waiting for an external controller to expand this PVC"
            self._recorder.event(claim, "Normal", EXPANDING, message)

    async def _name_resizer(self, claim: PersistentVolumeClaim, driver: str) -> None:
        if claim.metadata.annotations.get(RESIZER) != driver:
            meta = claim.metadata
            patch = {"metadata": {"uid": meta.uid, "annotations": {RESIZER: driver}}}
            # Upstream's role lets this controller change a claim only through its status.
            await self._client.patch(PersistentVolumeClaim, meta.name, patch, meta.namespace, subresource="status")

    async def _grow(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Grow the volume first, since a claim must never show more than its volume."""
        changes: dict[str, Any] = {}
        wanted = requested_size(claim)
        if wanted > capacity_of_volume(volume):
            changes["spec"] = {"capacity": {STORAGE: str(wanted)}}
        if PRE_RESIZE_CAPACITY in volume.metadata.annotations:
            changes["metadata"] = {"annotations": {PRE_RESIZE_CAPACITY: None}}
        if changes:
            demands = {"uid": volume.metadata.uid, "resourceVersion": volume.metadata.resource_version}
            changes["metadata"] = {**changes.get("metadata", {}), **demands}
            await self._client.patch(PersistentVolume, volume.metadata.name, changes)
        if wanted > capacity_of(claim):
            meta = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
            patch = {"metadata": meta, "status": {"capacity": {STORAGE: str(wanted)}}}
            await self._status.patch_status(self._claims.resource, claim, patch)


def capacity_of(claim: PersistentVolumeClaim) -> Quantity:
    """Return the capacity in the claim's status."""
    return parse_quantity(claim.status.capacity.get(STORAGE, "0"))


def in_tree_plugin(spec: PersistentVolumeSpec) -> str | None:
    """Return the in-tree plugin of the volume, or None."""
    sources = {
        "kubernetes.io/aws-ebs": spec.aws_elastic_block_store,
        "kubernetes.io/azure-disk": spec.azure_disk,
        "kubernetes.io/azure-file": spec.azure_file,
        "kubernetes.io/cinder": spec.cinder,
        "kubernetes.io/gce-pd": spec.gce_persistent_disk,
        "kubernetes.io/portworx-volume": spec.portworx_volume,
        "kubernetes.io/vsphere-volume": spec.vsphere_volume,
    }
    return next((name for name, source in sources.items() if source is not None), None)


def _has_grown(old: Any, new: Any) -> bool:
    """Return True if a bound claim appears, requests more, or has more capacity than before."""
    if new is None or new.status.phase != "Bound":
        return False
    if old is None or old.status.phase != "Bound":
        return True
    return requested_size(new) > requested_size(old) or capacity_of(new) > capacity_of(old)
