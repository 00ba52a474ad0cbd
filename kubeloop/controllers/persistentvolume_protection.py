# SPDX-License-Identifier: Apache-2.0
"""Prevents the deletion of a volume that is bound to a claim.

Watches: volumes.
Owns: the finalizer `kubernetes.io/pv-protection`.
Writes: finalizers of volumes.
Wakes itself: never.
Differs from upstream: nothing.
"""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import PersistentVolume
from kubeloop.api.pods.volumes import VOLUME_PROTECTION
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.protection import Protection
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "persistentvolume-protection-controller"
QUEUE: Final = "pvprotection"  # upstream's queue name, as dashboards know it
WORKERS: Final = 1  # as upstream


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    volumes = context.informers.for_resource(resource_of_class(PersistentVolume))
    protection = Protection(context.client, volumes.resource, VOLUME_PROTECTION, is_bound)
    reconciler = Reconciler(volumes, protection)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(volumes, own_key, protection.needs_update)
    return controller


class Reconciler:
    """Adds and removes the finalizer by key."""

    def __init__(self, volumes: Informer, protection: Protection) -> None:
        self._volumes = volumes
        self._protection = protection

    async def reconcile(self, key: ObjectKey) -> None:
        """Add or remove the finalizer of one volume."""
        volume = self._volumes.get(*key)
        if volume is not None:
            await self._protection.protect(volume)


async def is_bound(volume: PersistentVolume) -> bool:
    """Return True if the phase is Bound; a volume used by pods is bound, and its claim is protected in turn."""
    return volume.status.phase == "Bound"
