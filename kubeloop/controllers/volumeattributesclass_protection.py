# SPDX-License-Identifier: Apache-2.0
"""Prevents the deletion of a VolumeAttributesClass that a claim or volume uses, used or is changing to.

Watches: volume attributes classes; claims and volumes for the classes that they release.
Owns: the finalizer `kubernetes.io/vac-protection`.
Writes: finalizers of volume attributes classes.
Wakes itself: never.
Differs from upstream: nothing.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import VolumeAttributesClass
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.protection import Protection
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import KeysOf, own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "volumeattributesclass-protection-controller"
QUEUE: Final = "vacprotection"  # upstream's queue name, as dashboards know it
FINALIZER: Final = "kubernetes.io/vac-protection"
WORKERS: Final = 1  # as upstream
# Index of claims and volumes by class.
ATTRIBUTES: Final = "volume attributes class"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    classes, claims, volumes = (
        context.informers.for_resource(resource_of_class(kind))
        for kind in (VolumeAttributesClass, PersistentVolumeClaim, PersistentVolume)
    )
    claims.add_indexer(ATTRIBUTES, classes_of_claim)
    volumes.add_indexer(ATTRIBUTES, classes_of_volume)
    reconciler = Reconciler(context, classes, claims, volumes)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(classes, own_key, reconciler.protection.needs_update)
    for users, named in ((claims, classes_of_claim), (volumes, classes_of_volume)):
        controller.watches(users, _keys(named), _lets_go(named))
    return controller


class Reconciler:
    """Adds and removes the finalizer by key."""

    def __init__(self, context: ControllerContext, classes: Informer, claims: Informer, volumes: Informer) -> None:
        self._classes = classes
        self._users = (volumes, claims)
        self.protection = Protection(context.client, classes.resource, FINALIZER, self._is_named)

    async def reconcile(self, key: ObjectKey) -> None:
        """Add or remove the finalizer of one class."""
        attributes = self._classes.get(*key)
        if attributes is not None:
            await self.protection.protect(attributes)

    async def _is_named(self, attributes: VolumeAttributesClass) -> bool:
        return any(users.by_index(ATTRIBUTES, attributes.metadata.name) for users in self._users)


def classes_of_claim(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """Return the desired, the current, and the target class of a claim."""
    status = claim.status
    target = status.modify_volume_status
    names = (
        claim.spec.volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        None if target is None else target.target_volume_attributes_class_name,
    )
    return tuple(dict.fromkeys(name for name in names if name))


def classes_of_volume(volume: PersistentVolume) -> tuple[str, ...]:
    """Return the class of a volume."""
    name = volume.spec.volume_attributes_class_name
    return (name,) if name else ()


def _keys(named: Any) -> KeysOf[ObjectKey]:
    return lambda obj: [ObjectKey("", name) for name in named(obj)]


def _lets_go(named: Any) -> Any:
    def lets_go(old: Any, new: Any) -> bool:
        return old is not None and (new is None or not set(named(old)) <= set(named(new)))

    return lets_go
