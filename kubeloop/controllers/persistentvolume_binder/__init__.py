"""Claims and volumes are bound to each other, one to one; volumes are made for claims, and reclaimed after them.

claims, volumes, classes ──▶ keys ──▶ claims.py: find, wait, take ──▶ writing.py: volume, then claim
                                 └──▶ volumes.py: available, bound, released ──▶ reclaiming.py: keep, wipe, delete

Watches: claims, volumes, storage classes; pods and nodes for reading; pods that wipe volumes.
Owns: the pods that wipe volumes, in the namespace `default`; volumes that its own provisioners make.
Writes: specs, annotations, finalizers and status of volumes and claims; creates and deletes volumes and wiping pods.
Wakes itself: while a claim or a released volume waits, every `--pvclaimbinder-sync-period`.
Differs from upstream: a claim is looked at anew when a volume or class that may suit it appears, not only each period;
    what is bound and well isn't looked at periodically. Several claims are bound at once, each holding back the volume
    that it takes. Of volumes of equal size the first by name is taken. A provisioner of this loop is called again for
    a claim whose volume could not be saved, instead of the volume being saved five times. Directories of host paths
    are removed only where this loop's provisioner made them. Events of wiping pods are not copied to the volume.
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
    has_class,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.persistentvolume_binder.claims import ClaimReconciler, is_default
from kubeloop.controllers.persistentvolume_binder.instruments import Measured, count_volumes
from kubeloop.controllers.persistentvolume_binder.latest import Latest
from kubeloop.controllers.persistentvolume_binder.plugins import Plugins
from kubeloop.controllers.persistentvolume_binder.provisioner import Provisioner, built_in
from kubeloop.controllers.persistentvolume_binder.provisioning import Provisioning
from kubeloop.controllers.persistentvolume_binder.reclaiming import Reclaiming
from kubeloop.controllers.persistentvolume_binder.recycling import NAMESPACE, PREFIX, Recycling
from kubeloop.controllers.persistentvolume_binder.shelf import Shelf
from kubeloop.controllers.persistentvolume_binder.volumes import VolumeReconciler
from kubeloop.controllers.persistentvolume_binder.writing import Writer
from kubeloop.controllers.shared.patch_or_update import PatchOrUpdate
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "persistentvolume-binder-controller"
QUEUE: Final = "claims"  # upstream's, as dashboards know it; its other one, of volumes, is the same here
COMPONENT: Final = "persistentvolume-controller"  # whom upstream's events name
WORKERS: Final = 8
# What appears within it wakes a waiting claim once.
GATHER_SECONDS: Final = 0.2
# An index of claims: by class if they are not bound yet, and by volume if they ask for one.
WAITING: Final = "waiting"
_ANY_CLASS: Final = "*"  # no class was asked for


class Key(NamedTuple):
    """A claim, or without a namespace a volume."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def wire(context: Context, *provisioners: Provisioner) -> Controller[Key]:
    """With provisioners of one's own besides those that are built in."""
    claims, volumes, classes, pods, nodes = (
        context.informers.of(resource_of_class(kind))
        for kind in (PersistentVolumeClaim, PersistentVolume, StorageClass, Pod, Node)
    )
    claims.add_indexer(WAITING, waiting_for)
    pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
    registry = context.telemetry.registry
    count_volumes(registry, volumes, claims)
    makers = (*built_in(context.config.enable_hostpath_provisioner), *provisioners)
    plugins = Plugins(Measured(one, registry, context.clock) for one in makers)
    reconciler = _reconciler(context, (claims, volumes, classes, pods, nodes), plugins)
    queue: WorkQueue[Key] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.listens_to(claims, reconciler.claims)
    controller.listens_to(volumes, reconciler.volumes)
    resync = context.resync_period()
    controller.watches(claims, reconciler.keys_of_claim, resync=resync)
    controller.watches(volumes, keys_of_volume, resync=resync)
    controller.watches(volumes, lambda one: claims_for_volume(claims, one), _may_be_taken, delay=GATHER_SECONDS)
    controller.watches(classes, lambda one: claims_for_class(claims, one), _is_there, delay=GATHER_SECONDS)
    controller.watches(pods, wiped_volume, _is_wiper)
    controller.listens_to(nodes, Latest(nodes))
    return controller


def _reconciler(
    context: Context, informers: tuple[Informer, Informer, Informer, Informer, Informer], plugins: Plugins
) -> Reconciler:
    claims, volumes, classes, pods, nodes = informers
    client, recorder = context.client, context.recorder.of_component(COMPONENT)
    latest_claims = Latest(claims)
    latest_volumes = Latest(volumes, lambda key: shelf.update(key.name))
    shelf = Shelf(lambda name: latest_volumes.get("", name))
    writer = Writer(PatchOrUpdate(client), latest_volumes, latest_claims, recorder)
    provisioning = Provisioning(client, writer, plugins, (classes, nodes, latest_volumes), recorder)
    recycling = Recycling(client, writer, (pods, latest_claims), context.config, recorder)
    reclaiming = Reclaiming(client, writer, latest_claims, (plugins, recycling), recorder)
    of_claims = ClaimReconciler(
        client,
        writer,
        (shelf, latest_volumes, classes, pods),
        provisioning if context.config.enable_dynamic_provisioning else None,
        recorder,
    )
    of_volumes = VolumeReconciler(client, writer, latest_claims, reclaiming, recorder)
    return Reconciler(
        (latest_claims, of_claims), (latest_volumes, of_volumes), shelf, context.config.pvclaimbinder_sync_period
    )


class Reconciler:
    def __init__(
        self,
        claims: tuple[Latest, ClaimReconciler],
        volumes: tuple[Latest, VolumeReconciler],
        shelf: Shelf,
        period: float,
    ) -> None:
        self.claims, self._of_claims = claims
        self.volumes, self._of_volumes = volumes
        self._shelf = shelf
        self._period = period

    async def reconcile(self, key: Key) -> Result | None:
        if key.namespace:
            claim = self.claims.get(*key)
            waits = claim is not None and await self._of_claims.reconcile(claim)
        else:
            volume = self.volumes.get(*key)
            waits = volume is not None and await self._of_volumes.reconcile(volume)
        return Result(requeue_after=self._period) if waits else None

    def keys_of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        """The claim, the volume that it has, and those that refer to it."""
        meta = claim.metadata
        names = dict.fromkeys(self._shelf.reserved_for(ObjectKey(meta.namespace, meta.name)))
        if claim.spec.volume_name:
            names[claim.spec.volume_name] = None
        return [Key(meta.namespace, meta.name), *(Key("", name) for name in names)]


def keys_of_volume(volume: PersistentVolume) -> Iterable[Key]:
    """The volume, and the claim that it refers to."""
    reference = volume.spec.claim_ref
    own = Key("", volume.metadata.name)
    return (own,) if reference is None else (own, Key(reference.namespace, reference.name))


def waiting_for(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """Index claims that are not bound by the class that they want, and by the volume if it is a certain one."""
    if BIND_COMPLETED in claim.metadata.annotations and claim.status.phase != "Lost":
        return ()
    if claim.spec.volume_name:
        return (f"volume {claim.spec.volume_name}",)
    return (f"class {class_of_claim(claim) if has_class(claim) else _ANY_CLASS}",)


def claims_for_volume(claims: Informer, volume: PersistentVolume) -> Iterable[Key]:
    """The claims that a volume may suit."""
    of_class = class_of_volume(volume)
    values = [f"volume {volume.metadata.name}", f"class {of_class}"]
    if not of_class:
        values.append(f"class {_ANY_CLASS}")
    return _waiting(claims, values)


def claims_for_class(claims: Informer, storage_class: StorageClass) -> Iterable[Key]:
    """The claims that want a class, or that get it because it is the default."""
    values = [f"class {storage_class.metadata.name}"]
    if is_default(storage_class):
        values.append(f"class {_ANY_CLASS}")
    return _waiting(claims, values)


def _waiting(claims: Informer, values: Iterable[str]) -> Iterable[Key]:
    found = (one.metadata for value in values for one in claims.by_index(WAITING, value))
    return [Key(meta.namespace, meta.name) for meta in found]


def wiped_volume(pod: Pod) -> Iterable[Key]:
    return (Key("", pod.metadata.name.removeprefix(PREFIX)),)


def _is_wiper(old: Any, new: Any) -> bool:
    meta = (old if new is None else new).metadata
    return bool(meta.namespace == NAMESPACE and meta.name.startswith(PREFIX))


def _is_there(_: Any, new: Any) -> bool:
    return new is not None


def _may_be_taken(old: Any, new: Any) -> bool:
    """A volume appears that was not to be had before."""
    return _is_free(new) and not (_is_free(old) and old.metadata.labels == new.metadata.labels)


def _is_free(volume: Any) -> bool:
    return volume is not None and volume.spec.claim_ref is None and volume.status.phase == "Available"
