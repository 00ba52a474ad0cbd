# SPDX-License-Identifier: Apache-2.0
"""Creates a claim for each ephemeral volume of a pod, which is deleted with the pod.

Watches: pods; claims, for their deletion.
Owns: the claims of ephemeral volumes, by an owner reference; the garbage collector deletes them after their pod.
Writes: creates claims.
Wakes itself: never.
Differs from upstream: a claim that cannot be created in a terminating namespace is not retried.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubeloop.api.errors import ApiError, Forbidden
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod, Volume
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.pods.volumes import (
    PODS_BY_CLAIM,
    claim_keys_of,
    ephemeral_claim_name,
    is_claim_for_pod,
)
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "ephemeral-volume-controller"
COMPONENT: Final = "ephemeral_volume"  # source component of upstream's events
QUEUE: Final = "ephemeral_volume"  # upstream's queue name, as dashboards know it


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    pods = context.informers.for_resource(resource_of_class(Pod))
    claims = context.informers.for_resource(resource_of_class(PersistentVolumeClaim))
    pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
    registry = context.telemetry.registry
    recorder = context.recorder.with_component(COMPONENT)
    reconciler = Reconciler(context.client, pods, claims, recorder, registry)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=registry)
    workers = context.config.concurrent_ephemeralvolume_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    controller.watches(pods, own_key, _is_new)
    controller.watches(claims, lambda claim: pods_of(pods, claim), _is_gone)
    return controller


class ClaimConflict(Exception):
    """Raised if a claim of that name exists that was not created for the pod."""


class Reconciler:
    """Creates claims by the key of their pod."""

    def __init__(
        self, client: Client, pods: Informer, claims: Informer, recorder: EventRecorder, registry: MetricRegistry
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self._recorder = recorder
        subsystem = "ephemeral_volume_controller"
        self._tries = registry.counter(f"{subsystem}_create_total").with_labels()
        self._failures = registry.counter(f"{subsystem}_create_failures_total").with_labels()

    async def reconcile(self, key: ObjectKey) -> None:
        """Create the missing claims of one pod."""
        pod: Pod | None = self._pods.get(*key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                await self._ensure(pod, volume)

    async def _ensure(self, pod: Pod, volume: Volume) -> None:
        try:
            await self._ensure_claim(pod, volume)
        except (ClaimConflict, ApiError) as error:
            self._recorder.event(
                pod, "Warning", "FailedBinding", f"ephemeral volume {volume.name}: {_why(pod, volume, error)}"
            )
            if not (isinstance(error, Forbidden) and is_terminating(error)):
                raise

    async def _ensure_claim(self, pod: Pod, volume: Volume) -> None:
        found = self._claims.get(pod.metadata.namespace, ephemeral_claim_name(pod, volume))
        if found is None:
            self._tries.value += 1
            try:
                await self._client.create(ephemeral_claim(pod, volume))
            except ApiError:
                self._failures.value += 1
                raise
        elif not is_claim_for_pod(found, pod):
            theirs, ours = key_of(found), key_of(pod)
            raise ClaimConflict(f"PVC {theirs} was not created for pod {ours} (pod is not owner)")


def ephemeral_claim(pod: Pod, volume: Volume) -> PersistentVolumeClaim:
    """Build the claim of an ephemeral volume from its template."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    if template is None:
        raise ValueError(f"volume {volume.name} has no claim template")
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    said = template.metadata
    meta = ObjectMeta(
        name=ephemeral_claim_name(pod, volume),
        namespace=pod.metadata.namespace,
        owner_references=(owner,),
        annotations=said.annotations,
        labels=said.labels,
    )
    return PersistentVolumeClaim(metadata=meta, spec=template.spec)


def pods_of(pods: Informer, claim: PersistentVolumeClaim) -> Iterable[ObjectKey]:
    """Return the keys of pods that use a claim and have ephemeral volumes."""
    users = pods.by_index(PODS_BY_CLAIM, f"{claim.metadata.namespace}/{claim.metadata.name}")
    return [key_of(pod) for pod in users if _is_new(None, pod)]


def _why(pod: Pod, volume: Volume, error: Exception) -> str:
    if isinstance(error, ClaimConflict):
        return str(error)
    return f"create PVC {ephemeral_claim_name(pod, volume)}: {error}"


def _is_new(old: Any, new: Any) -> bool:
    """Return True for a new pod with ephemeral volumes, which are immutable."""
    if old is not None or new is None or new.metadata.deletion_timestamp is not None:
        return False
    return any(volume.ephemeral is not None for volume in new.spec.volumes)


def _is_gone(_: Any, new: Any) -> bool:
    return new is None
