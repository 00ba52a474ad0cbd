# SPDX-License-Identifier: Apache-2.0
"""Provisions a volume for a claim without a suitable one, here or by an annotation for an external provisioner."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeloop.api.errors import AlreadyExists, ApiError, NotFound
from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.api.pods.volumes import (
    BOUND_BY_CONTROLLER,
    CSI_DRIVERS,
    PROVISIONED_BY,
    SELECTED_NODE,
    class_of_claim,
    reference_to_claim,
)
from kubeloop.client import Client
from kubeloop.controllers.persistentvolume_binder.binding_patches import IN_TREE_FINALIZER, provisioner_patch
from kubeloop.controllers.persistentvolume_binder.binding_writer import BindingWriter
from kubeloop.controllers.persistentvolume_binder.plugins import NoPlugin, Plugins
from kubeloop.controllers.persistentvolume_binder.provisioner import (
    Provisioner,
    ProvisionerUnavailable,
    ProvisioningError,
    ProvisionRequest,
    VolumeDeletionError,
)
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer

FAILED: Final = "ProvisioningFailed"


class DynamicProvisioner:
    """Provisions volumes for claims."""

    def __init__(
        self,
        client: Client,
        writer: BindingWriter,
        plugins: Plugins,
        caches: tuple[Informer, Informer, AssumeCache],  # classes, nodes, volumes
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._writer = writer
        self._plugins = plugins
        self._classes, self._nodes, self._volumes = caches
        self._recorder = recorder

    async def provision(self, claim: PersistentVolumeClaim) -> None:
        """Provision a volume. A failure is recorded as an event, and retried with the claim."""
        name = class_of_claim(claim)
        storage_class: StorageClass | None = self._classes.get("", name)
        if storage_class is None:
            self._fail(claim, f'storageclass.storage.k8s.io "{name}" not found')
            return
        try:
            maker = self._plugins.provisioner_of(storage_class.provisioner)
        except NoPlugin as error:
            self._fail(claim, str(error))
            return
        if maker is None:
            await self._ask(claim, storage_class.provisioner)
        else:
            await self._make(claim, storage_class, maker)

    async def _ask(self, claim: PersistentVolumeClaim, provisioner: str) -> None:
        driver = CSI_DRIVERS.get(provisioner, provisioner)
        claim = await self._writer.change_claim(claim, provisioner_patch(claim, driver))
        message = (
            f"Waiting for a volume to be created either by the external provisioner '{driver}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        self._recorder.event(claim, "Normal", "ExternalProvisioning", message)

    async def _make(self, claim: PersistentVolumeClaim, storage_class: StorageClass, maker: Provisioner) -> None:
        if claim.spec.data_source is not None:
            why = "is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
            self._fail(claim, f'plugin "{maker.name}" {why}')
            return
        claim = await self._writer.change_claim(claim, provisioner_patch(claim, storage_class.provisioner))
        name = f"pvc-{claim.metadata.uid}"
        if await self._is_made(name) or not await self._is_needed(claim):
            return
        options = storage_class.mount_options
        if options and not maker.takes_mount_options:
            what = f'StorageClass "{storage_class.metadata.name}" has mount options [{" ".join(options)}]'
            self._fail(claim, f"Mount options are not supported by the provisioner but {what}")
            return
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        node: Node | None = None if selected is None else self._nodes.get("", selected)
        if selected is not None and node is None:
            self._fail(claim, f'Failed to get target node: node "{selected}" not found')
            return
        volume = await self._made(ProvisionRequest(name, claim, storage_class, node), maker)
        if volume is not None:
            await self._keep(complete_volume(volume, claim, maker.name), claim, maker)

    async def _is_made(self, name: str) -> bool:
        if self._volumes.get("", name) is not None:
            return True
        try:
            await self._client.get(PersistentVolume, name)
        except NotFound:
            return False
        return True

    async def _is_needed(self, claim: PersistentVolumeClaim) -> bool:
        """Ask the server: nothing is provisioned because of an old cache for a claim that is gone or has a volume."""
        current = await current_claim(self._client, claim)
        return current is not None and not current.spec.volume_name

    async def _made(self, request: ProvisionRequest, maker: Provisioner) -> PersistentVolume | None:
        try:
            return await maker.provision(request)
        except ProvisionerUnavailable as error:
            self._fail(request.claim, f"Failed to create provisioner: {error}")
        except ProvisioningError as error:
            await self._reschedule(request.claim)
            of_class = request.storage_class.metadata.name
            self._fail(request.claim, f'Failed to provision volume with StorageClass "{of_class}": {error}')
        return None

    async def _reschedule(self, claim: PersistentVolumeClaim) -> None:
        """Let the scheduler choose another node."""
        if SELECTED_NODE in claim.metadata.annotations:
            await self._writer.change_claim(claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})

    async def _keep(self, volume: PersistentVolume, claim: PersistentVolumeClaim, maker: Provisioner) -> None:
        """Save a provisioned volume in the API. After a lost response the result is unknown; a refusal is final."""
        try:
            self._volumes.assume(await self._client.create(volume))
        except AlreadyExists:
            pass
        except ApiError as error:
            if error.code >= 500 or error.code == 429:
                raise
            await self._undo(volume, claim, maker, error)
            return
        message = f"Successfully provisioned volume {volume.metadata.name} using {maker.name}"
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", message)

    async def _undo(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim, maker: Provisioner, error: ApiError
    ) -> None:
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        self._fail(claim, f"Error creating provisioned PV object for claim {key}: {error}. Deleting the volume.")
        try:
            await maker.delete(volume)
        except VolumeDeletionError as why:
            message = f"Error cleaning provisioned volume for claim {key}: {why}. Please delete manually."
            self._recorder.event(claim, "Warning", "ProvisioningCleanupFailed", message)

    def _fail(self, claim: Any, message: str) -> None:
        self._recorder.event(claim, "Warning", FAILED, message)


def complete_volume(volume: PersistentVolume, claim: PersistentVolumeClaim, provisioner: str) -> PersistentVolume:
    """Complete a provisioned volume: bound to its claim, with a finalizer if it is deleted with the claim."""
    meta, spec = volume.metadata, volume.spec
    annotations = {**meta.annotations, BOUND_BY_CONTROLLER: "yes", PROVISIONED_BY: provisioner}
    finalizers = meta.finalizers
    if spec.persistent_volume_reclaim_policy == "Delete":
        finalizers = (IN_TREE_FINALIZER,)
    return msgspec.structs.replace(
        volume,
        metadata=msgspec.structs.replace(meta, annotations=annotations, finalizers=finalizers),
        spec=msgspec.structs.replace(
            spec, claim_ref=reference_to_claim(claim), storage_class_name=class_of_claim(claim)
        ),
    )


async def current_claim(client: Client, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | None:
    """Ask the server for a claim; None if it was deleted, even if there is another one of that name."""
    try:
        current: PersistentVolumeClaim = await client.get(
            PersistentVolumeClaim, claim.metadata.name, claim.metadata.namespace
        )
    except NotFound:
        return None
    return current if current.metadata.uid == claim.metadata.uid else None
