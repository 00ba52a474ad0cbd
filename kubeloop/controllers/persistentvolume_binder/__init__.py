# SPDX-License-Identifier: Apache-2.0
"""Binds claims and volumes to each other, one to one; provisions volumes for claims, and reclaims them.

claims, volumes, classes ──▶ keys ──▶ claims.py: find, wait, take ──▶ binding_writer.py: volume, claim
                                 └──▶ volumes.py: available, bound, released ──▶ reclaimer.py: retain, recycle, delete

Watches: claims, volumes, storage classes; pods and nodes for reading; recycler pods.
Owns: the recycler pods, in the namespace `default`; volumes that its own provisioners create.
Writes: specs, annotations, finalizers and status of volumes and claims; creates and deletes volumes and recycler pods.
Wakes itself: while a claim or a released volume waits, every `--pvclaimbinder-sync-period`.
Differs from upstream: a claim is synced when a volume or class that may suit it appears, not only each period; bound
  objects aren't synced periodically. Several claims are bound concurrently, each reserving the volume that it takes.
  Among volumes of equal size the first by name is taken. A built-in provisioner is called again for a claim whose
  volume could not be saved, instead of saving the volume five times. Directories of host paths are removed only where
  this controller's provisioner created them. Events of recycler pods are not copied to the volume.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.api.pods.volumes import (
    BIND_COMPLETED,
    PODS_BY_CLAIM,
    claim_keys_of,
    class_of_claim,
    class_of_volume,
    has_storage_class,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.persistentvolume_binder.binding_writer import BindingWriter
from kubeloop.controllers.persistentvolume_binder.claims import ClaimReconciler, is_default
from kubeloop.controllers.persistentvolume_binder.dynamic_provisioner import DynamicProvisioner
from kubeloop.controllers.persistentvolume_binder.metrics import (
    DefaultClassMetrics,
    MeasuredProvisioner,
    register_volume_metrics,
)
from kubeloop.controllers.persistentvolume_binder.plugins import Plugins
from kubeloop.controllers.persistentvolume_binder.provisioner import Provisioner, built_in_provisioners
from kubeloop.controllers.persistentvolume_binder.reclaimer import VolumeReclaimer
from kubeloop.controllers.persistentvolume_binder.recycler import NAMESPACE, PREFIX, VolumeRecycler
from kubeloop.controllers.persistentvolume_binder.volume_index import VolumeIndex
from kubeloop.controllers.persistentvolume_binder.volumes import VolumeReconciler
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "persistentvolume-binder-controller"
QUEUE: Final = "claims"  # upstream's queue name, as dashboards know it; here it also serves volumes
COMPONENT: Final = "persistentvolume-controller"  # source component of upstream's events
WORKERS: Final = 8
# Seconds over which changes that enqueue a waiting claim are batched.
BATCH_PERIOD: Final = 0.2
# Index of claims: unbound ones by class, or by the requested volume.
WAITING: Final = "waiting"
_ANY_CLASS: Final = "*"  # no class was requested


class BinderKey(NamedTuple):
    """Queue key: a claim, or without a namespace a volume."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def wire(context: ControllerContext, *provisioners: Provisioner) -> Controller[BinderKey]:
    """Build the controller with additional provisioners, and register its event handlers."""
    claims, volumes, classes, pods, nodes = (
        context.informers.for_resource(resource_of_class(kind))
        for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, Pod, Node)
    )
    claims.add_indexer(WAITING, waiting_index_values)
    pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
    registry = context.telemetry.registry
    register_volume_metrics(registry, volumes, claims)
    makers = (*built_in_provisioners(context.config.enable_hostpath_provisioner), *provisioners)
    plugins = Plugins(MeasuredProvisioner(one, registry, context.clock) for one in makers)
    reconciler = _reconciler(context, (claims, volumes, classes, pods, nodes), plugins)
    queue: WorkQueue[BinderKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.add_event_handler(claims, reconciler.claims)
    controller.add_event_handler(volumes, reconciler.volumes)
    resync = context.resync_period()
    controller.watches(claims, reconciler.keys_of_claim, resync=resync)
    controller.watches(volumes, keys_of_volume, resync=resync)
    controller.watches(volumes, lambda one: claims_for_volume(claims, one), _became_available, delay=BATCH_PERIOD)
    controller.watches(classes, lambda one: claims_for_class(claims, one), _is_there, delay=BATCH_PERIOD)
    controller.watches(pods, recycled_volume_keys, _is_wiper)
    controller.require_synced(nodes)
    return controller


def _reconciler(
    context: ControllerContext, informers: tuple[Informer, Informer, Informer, Informer, Informer], plugins: Plugins
) -> Reconciler:
    claims, volumes, classes, pods, nodes = informers
    client, recorder = context.client, context.recorder.with_component(COMPONENT)
    latest_claims = AssumeCache(claims)
    latest_volumes = AssumeCache(volumes, lambda key: shelf.update(key.name))
    shelf = VolumeIndex(lambda name: latest_volumes.get("", name))
    writer = BindingWriter(PatchOrUpdate(client), latest_volumes, latest_claims, recorder)
    provisioning = DynamicProvisioner(client, writer, plugins, (classes, nodes, latest_volumes), recorder)
    recycling = VolumeRecycler(client, writer, (pods, latest_claims), context.config, recorder)
    reclaiming = VolumeReclaimer(client, writer, latest_claims, (plugins, recycling), recorder)
    of_claims = ClaimReconciler(
        client,
        writer,
        (shelf, latest_volumes, classes, pods),
        provisioning if context.config.enable_dynamic_provisioning else None,
        recorder,
        DefaultClassMetrics(context.telemetry.registry),
    )
    of_volumes = VolumeReconciler(client, writer, latest_claims, reclaiming, recorder)
    return Reconciler(
        (latest_claims, of_claims), (latest_volumes, of_volumes), shelf, context.config.pvclaimbinder_sync_period
    )


class Reconciler:
    """Dispatches keys of claims and volumes."""

    def __init__(
        self,
        claims: tuple[AssumeCache, ClaimReconciler],
        volumes: tuple[AssumeCache, VolumeReconciler],
        shelf: VolumeIndex,
        period: float,
    ) -> None:
        self.claims, self._of_claims = claims
        self.volumes, self._of_volumes = volumes
        self._shelf = shelf
        self._period = period

    async def reconcile(self, key: BinderKey) -> Result | None:
        """Sync one claim or one volume, and requeue it while it waits."""
        if key.namespace:
            claim = self.claims.get(*key)
            waits = claim is not None and await self._of_claims.reconcile(claim)
        else:
            volume = self.volumes.get(*key)
            waits = volume is not None and await self._of_volumes.reconcile(volume)
        return Result(requeue_after=self._period) if waits else None

    def keys_of_claim(self, claim: PersistentVolumeClaim) -> Iterable[BinderKey]:
        """Return the keys of the claim, of its volume, and of volumes that refer to it."""
        meta = claim.metadata
        names = dict.fromkeys(self._shelf.reserved_for(ObjectKey(meta.namespace, meta.name)))
        if claim.spec.volume_name:
            names[claim.spec.volume_name] = None
        return [BinderKey(meta.namespace, meta.name), *(BinderKey("", name) for name in names)]


def keys_of_volume(volume: PersistentVolume) -> Iterable[BinderKey]:
    """Return the keys of the volume and of the claim that it refers to."""
    reference = volume.spec.claim_ref
    own = BinderKey("", volume.metadata.name)
    return (own,) if reference is None else (own, BinderKey(reference.namespace, reference.name))


def waiting_index_values(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """Index unbound claims by their class, or by the volume that they request."""
    if BIND_COMPLETED in claim.metadata.annotations and claim.status.phase != "Lost":
        return ()
    if claim.spec.volume_name:
        return (f"volume {claim.spec.volume_name}",)
    return (f"class {class_of_claim(claim) if has_storage_class(claim) else _ANY_CLASS}",)


def claims_for_volume(claims: Informer, volume: PersistentVolume) -> Iterable[BinderKey]:
    """Return the claims that may be bound to a volume."""
    of_class = class_of_volume(volume)
    values = [f"volume {volume.metadata.name}", f"class {of_class}"]
    if not of_class:
        values.append(f"class {_ANY_CLASS}")
    return _waiting(claims, values)


def claims_for_class(claims: Informer, storage_class: StorageClass) -> Iterable[BinderKey]:
    """Return the claims that request a class, or that get it as the default."""
    values = [f"class {storage_class.metadata.name}"]
    if is_default(storage_class):
        values.append(f"class {_ANY_CLASS}")
    return _waiting(claims, values)


def _waiting(claims: Informer, values: Iterable[str]) -> Iterable[BinderKey]:
    found = (one.metadata for value in values for one in claims.by_index(WAITING, value))
    return [BinderKey(meta.namespace, meta.name) for meta in found]


def recycled_volume_keys(pod: Pod) -> Iterable[BinderKey]:
    """Return the key of the volume that a recycler pod wipes."""
    return (BinderKey("", pod.metadata.name.removeprefix(PREFIX)),)


def _is_wiper(old: Any, new: Any) -> bool:
    meta = (old if new is None else new).metadata
    return bool(meta.namespace == NAMESPACE and meta.name.startswith(PREFIX))


def _is_there(_: Any, new: Any) -> bool:
    return new is not None


def _became_available(old: Any, new: Any) -> bool:
    """Return True if a volume has become available."""
    return _is_free(new) and not (_is_free(old) and old.metadata.labels == new.metadata.labels)


def _is_free(volume: Any) -> bool:
    return volume is not None and volume.spec.claim_ref is None and volume.status.phase == "Available"
