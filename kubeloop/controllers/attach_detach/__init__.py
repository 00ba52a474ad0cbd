# SPDX-License-Identifier: Apache-2.0
"""Attaches volumes to the nodes where pods need them, and detaches them when no pod there does.

pods, claims, volumes, drivers ──▶ attacher.py: one volume ───▶ VolumeAttachments, which drivers execute
VolumeAttachments, nodes ────────▶ node_status_updater.py ────▶ status.volumesAttached, which kubelets wait for

A volume is one disk: all PersistentVolumes and inline volumes with the same driver and handle.

Watches: pods, claims, volumes, CSI drivers, nodes, volume attachments.
Owns: VolumeAttachments of persistent and in-tree inline volumes; `volumesAttached` in the status of nodes.
Writes: creates and deletes VolumeAttachments; the status of nodes.
Wakes itself: when a driver takes too long, when an unhealthy node has kept a volume for six minutes, and every
  `--attach-detach-reconcile-sync-period` for attached volumes.
Differs from upstream: VolumeAttachments are the state, without a copy in memory; each change enqueues only the volumes
  that it affects. Only volumes with a CSI source, and in-tree ones that are migrated to CSI, are attached: iSCSI and
  Fibre Channel, which upstream only lists in the node's status, are not handled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import CSIDriver, VolumeAttachment
from kubeloop.api.pods.csi_translation import csi_volume_of
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.attach_detach.attacher import VolumeAttacher
from kubeloop.controllers.attach_detach.events import AttachEvents
from kubeloop.controllers.attach_detach.metrics import register_attachment_metrics
from kubeloop.controllers.attach_detach.names import is_managed, is_out_of_service, is_ready
from kubeloop.controllers.attach_detach.node_status_updater import NodeStatusUpdater
from kubeloop.controllers.attach_detach.state_of_world import AttachDetachCaches, StateOfWorld, needs_volumes
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "persistentvolume-attach-detach-controller"
COMPONENT: Final = "attachdetach-controller"  # source component of upstream's events
WORKERS: Final = 10


class AttachDetachKey(NamedTuple):
    """Queue key: the unique name of a volume, or a node."""

    kind: Literal["volume", "node"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def wire(context: ControllerContext) -> Controller[AttachDetachKey]:
    """Build the controller and register its event handlers."""
    kinds = (Pod, PersistentVolumeClaim, PersistentVolume, VolumeAttachment, Node, CSIDriver)
    caches = AttachDetachCaches(*(context.informers.for_resource(resource_of_class(kind)) for kind in kinds))
    caches.add_indexers()
    world = StateOfWorld(caches)
    register_attachment_metrics(context.telemetry.registry, caches, world)
    queue: WorkQueue[AttachDetachKey] = WorkQueue(context.clock, name=NAME, registry=context.telemetry.registry)
    reconciler = _reconciler(context, world, queue)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    _watch(controller, context, caches, world)
    return controller


def _reconciler(context: ControllerContext, world: StateOfWorld, queue: WorkQueue[AttachDetachKey]) -> Reconciler:
    telling = AttachEvents(context.recorder.with_component(COMPONENT), context.telemetry.registry)
    attaching = VolumeAttacher(
        context.client,
        world,
        context.clock,
        telling,
        forces=not context.config.disable_force_detach_on_timeout,
        wake_node=lambda name: queue.add(AttachDetachKey("node", name)),
    )
    return Reconciler(attaching, NodeStatusUpdater(context.client, world, attaching.memory))


def _watch(
    controller: Controller[AttachDetachKey], context: ControllerContext, caches: AttachDetachCaches, world: StateOfWorld
) -> None:
    config = context.config
    period = 0.0 if config.disable_attach_detach_reconcile_sync else config.attach_detach_reconcile_sync_period
    controller.watches(
        caches.pods, lambda pod: _volumes(name for name, _ in world.volumes_of_pod(pod)), _needs_volumes_changed
    )
    controller.watches(caches.claims, lambda claim: _volumes([world.name_of_bound_volume(claim)]))
    controller.watches(caches.volumes, lambda volume: _volumes([world.name_of_volume(volume)]), _has_driver)
    controller.watches(caches.attachments, lambda one: _keys_of_attachment(one, world), resync=period)
    controller.watches(caches.drivers, lambda driver: _volumes(world.volumes_of_driver(driver.metadata.name)))
    controller.watches(
        caches.nodes,
        lambda node: [AttachDetachKey("node", node.metadata.name), *_volumes(world.volumes_on(node.metadata.name))],
        affects_attachments,
    )


class Reconciler:
    """Dispatches keys of volumes and nodes."""

    def __init__(self, attaching: VolumeAttacher, reporting: NodeStatusUpdater) -> None:
        self._attaching = attaching
        self._reporting = reporting

    async def reconcile(self, key: AttachDetachKey) -> Result | None:
        """Sync one volume or the status of one node."""
        if key.kind == "node":
            await self._reporting.reconcile(key.name)
            return None
        again = await self._attaching.reconcile(key.name)
        return None if again is None else Result(requeue_after=again)


def _keys_of_attachment(attachment: VolumeAttachment, world: StateOfWorld) -> list[AttachDetachKey]:
    """Return the keys of an attachment's volume and node."""
    return [*_volumes([world.name_of_attachment(attachment)]), AttachDetachKey("node", attachment.spec.node_name)]


def _volumes(names: Iterable[str | None]) -> list[AttachDetachKey]:
    return [AttachDetachKey("volume", name) for name in names if name]


def affects_attachments(old: Any, new: Any) -> bool:
    """Return True if a change of a node affects this controller."""
    return old is None or new is None or _looked_at(old) != _looked_at(new)


def _looked_at(node: Node) -> tuple[Any, ...]:
    status = node.status
    return status.volumes_in_use, status.volumes_attached, is_ready(node), is_out_of_service(node), is_managed(node)


def _needs_volumes_changed(old: Any, new: Any) -> bool:
    """Return True if a pod begins or ceases to need its volumes on a node."""
    before = old is not None and needs_volumes(old)
    return before != (new is not None and needs_volumes(new))


def _has_driver(old: Any, new: Any) -> bool:
    return csi_volume_of(old if new is None else new) is not None
