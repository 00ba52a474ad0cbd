# SPDX-License-Identifier: Apache-2.0
"""Warns pods that could not share a volume on one node because of their SELinux labels.

Watches: pods; claims, volumes and CSI drivers for the volumes that pods use.
Owns: nothing.
Writes: events only.
Wakes itself: never.
Differs from upstream: considers only volumes that can be mounted with a label, since others cause no conflicts: those
  of CSI drivers that support it, iSCSI and Fibre Channel, through claims. A pod that mounts one volume with two labels
  gets one event, not repeated ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import CSIDriver
from kubeloop.api.pods.volumes import (
    PODS_BY_CLAIM,
    VOLUMES_BY_DRIVER,
    claim_keys_of,
    claim_uses,
    driver_of,
    is_claim_for_pod,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.selinux_warning.uses import SELinuxConflict, VolumeCache, is_mounted, labels_of, use_of
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "selinux-warning-controller"
COMPONENT: Final = "selinux_warning"  # source component of upstream's events
QUEUE: Final = "selinux_warning"  # upstream's queue name, as dashboards know it
WORKERS: Final = 1  # as upstream
METRIC: Final = "selinux_warning_controller_selinux_volume_conflict"
_LABELS: Final = (
    "property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value"
)  # fmt: skip


class SELinuxCaches(NamedTuple):
    """Informers that the controller reads from."""

    pods: Informer
    claims: Informer
    volumes: Informer
    drivers: Informer


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    kinds = (Pod, PersistentVolumeClaim, PersistentVolume, CSIDriver)
    caches = SELinuxCaches(*(context.informers.for_resource(resource_of_class(kind)) for kind in kinds))
    caches.pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
    caches.volumes.add_indexer(VOLUMES_BY_DRIVER, driver_of)
    uses = VolumeCache()
    context.telemetry.registry.gauge(METRIC, *_LABELS).set_collector(
        lambda: dict.fromkeys(map(labels_of_conflict, uses.all_conflicts()), 1)
    )
    reconciler = Reconciler(caches, uses, context.recorder.with_component(COMPONENT))
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(caches.pods, own_key, _affects_volume_use)
    controller.watches(caches.claims, lambda claim: users_of(caches, claim.metadata.namespace, claim.metadata.name))
    controller.watches(caches.volumes, lambda volume: users_of_volume(caches, volume))
    controller.watches(caches.drivers, lambda driver: users_of_driver(caches, driver.metadata.name))
    return controller


class Reconciler:
    """Reconciles pods by key."""

    def __init__(self, caches: SELinuxCaches, uses: VolumeCache, recorder: EventRecorder) -> None:
        self._caches = caches
        self._recorder = recorder
        self._uses = uses

    async def reconcile(self, key: ObjectKey) -> None:
        """Update the volume uses of one pod, and record conflicts."""
        pod: Pod | None = self._caches.pods.get(*key)
        if pod is None or pod.status.phase in ("Failed", "Succeeded"):
            self._uses.delete_pod(key)
            return
        for name, volume in self._volumes_of(pod):
            self._look(pod, name, volume)

    def _look(self, pod: Pod, name: str, volume: PersistentVolume) -> None:
        labels = labels_of(pod, name)
        if len(labels) > 1:
            message = f'Volume "{name}" is mounted twice with different SELinux labels inside this pod'
            self._recorder.event(pod, "Warning", "MultipleSELinuxLabels", message)
            return
        use = use_of(pod, labels, self._takes_label(volume))
        for told in self._uses.add_volume(volume.metadata.name, key_of(pod), use):
            about = self._caches.pods.get(*told.pod)
            if about is not None:
                self._recorder.event(about, "Normal", told.reason, told.message)

    def _volumes_of(self, pod: Pod) -> Iterable[tuple[str, PersistentVolume]]:
        """Return the volumes that a pod mounts through claims, by their names in the pod."""
        for use in claim_uses(pod):
            claim: PersistentVolumeClaim | None = self._caches.claims.get(pod.metadata.namespace, use.name)
            if claim is None or not claim.spec.volume_name or not is_mounted(pod, use.volume.name):
                continue
            if use.volume.ephemeral is not None and not is_claim_for_pod(claim, pod):
                continue
            volume: PersistentVolume | None = self._caches.volumes.get("", claim.spec.volume_name)
            reference = volume.spec.claim_ref if volume is not None else None
            if volume is not None and reference is not None and reference.uid == claim.metadata.uid:
                yield use.volume.name, volume

    def _takes_label(self, volume: PersistentVolume) -> bool:
        """Return True if the volume can be mounted with a label for all its files."""
        spec = volume.spec
        if spec.csi is None:
            return spec.iscsi is not None or spec.fc is not None
        driver: CSIDriver | None = self._caches.drivers.get("", spec.csi.driver)
        return driver is not None and bool(driver.spec.se_linux_mount)


def users_of(caches: SELinuxCaches, namespace: str, claim: str) -> list[ObjectKey]:
    """Return the keys of pods that use a claim."""
    return [key_of(pod) for pod in caches.pods.by_index(PODS_BY_CLAIM, f"{namespace}/{claim}")]


def users_of_volume(caches: SELinuxCaches, volume: PersistentVolume) -> list[ObjectKey]:
    """Return the keys of pods that use a volume."""
    reference = volume.spec.claim_ref
    return [] if reference is None else users_of(caches, reference.namespace, reference.name)


def users_of_driver(caches: SELinuxCaches, driver: str) -> list[ObjectKey]:
    """Return the keys of pods that use a volume of a CSI driver."""
    return [
        key for volume in caches.volumes.by_index(VOLUMES_BY_DRIVER, driver) for key in users_of_volume(caches, volume)
    ]


def labels_of_conflict(one: SELinuxConflict) -> tuple[str, ...]:
    """Return the metric labels of a conflict."""
    return one.what, *one.pod, one.value, *one.other, one.other_value


def _affects_volume_use(old: Any, new: Any) -> bool:
    """Return True if a pod appears, disappears or changes its phase; nothing else relevant is mutable."""
    return old is None or new is None or old.status.phase != new.status.phase
