# SPDX-License-Identifier: Apache-2.0
"""Prevents the deletion of a claim that a pod uses, and reports since when a bound claim is unused.

Watches: claims; pods, for the claims that they use.
Owns: the finalizer `kubernetes.io/pvc-protection`, and the condition `Unused`.
Writes: finalizers of claims, and their status.
Wakes itself: never.
Differs from upstream: pods are listed from the server only before a finalizer is removed; the condition is based on the
  cache, whose events follow every change. Claims of one namespace that are deleted at the same time share such a list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimCondition, Pod
from kubeloop.api.pods.volumes import (
    CLAIM_PROTECTION,
    PODS_BY_CLAIM,
    claim_keys_of,
    claim_uses,
    has_released_volumes,
    uses_claim,
)
from kubeloop.api.scalars.times import format_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.protection import Protection
from kubeloop.controllers.shared.pods.coalesced_list import CoalescedPodList
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "persistentvolumeclaim-protection-controller"
QUEUE: Final = "pvcprotection"  # upstream's queue name, as dashboards know it
WORKERS: Final = 30  # as upstream
GATE: Final = "PersistentVolumeClaimUnusedSinceTime"
UNUSED: Final = "Unused"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    claims = context.informers.for_resource(resource_of_class(PersistentVolumeClaim))
    pods = context.informers.for_resource(resource_of_class(Pod))
    pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
    tells_use = parse_feature_gates(context.config.feature_gates).is_enabled(GATE)
    users = ClaimUsers(pods, CoalescedPodList(context.client))
    protection = Protection(context.client, claims.resource, CLAIM_PROTECTION, users.is_in_use)
    status = PatchOrUpdate(context.client) if tells_use else None
    reconciler = Reconciler(claims, users, protection, status, context.clock)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(
        claims, own_key, lambda old, new: _needs_condition(new, tells_use) or protection.needs_update(old, new)
    )
    controller.watches(pods, claims_of_pod, lambda old, new: tells_use or _may_release(new))
    return controller


class ClaimUsers:
    """Pods that use a claim."""

    def __init__(self, pods: Informer, live: CoalescedPodList) -> None:
        self._pods = pods
        self._live = live

    def is_referenced(self, claim: PersistentVolumeClaim) -> bool:
        """Return True if a pod that has not ended refers to the claim."""
        return any(not has_released_volumes(pod) and uses_claim(pod, claim) for pod in self._cached(claim))

    async def is_in_use(self, claim: PersistentVolumeClaim) -> bool:
        """Return True if a node may run a pod with the claim; the server is asked if the cache shows none."""
        if any(pod_uses_pvc_for_deletion(pod, claim) for pod in self._cached(claim)):
            return True
        return any(
            pod_uses_pvc_for_deletion(pod, claim) for pod in await self._live.list_pods(claim.metadata.namespace)
        )

    def _cached(self, claim: PersistentVolumeClaim) -> Iterable[Pod]:
        return self._pods.by_index(PODS_BY_CLAIM, f"{claim.metadata.namespace}/{claim.metadata.name}")


class Reconciler:
    """Reconciles claims by key."""

    def __init__(
        self, claims: Informer, users: ClaimUsers, protection: Protection, status: PatchOrUpdate | None, clock: Clock
    ) -> None:
        self._claims = claims
        self._users = users
        self._protection = protection
        self._status = status
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> None:
        """Update the condition and the finalizer of one claim."""
        claim: PersistentVolumeClaim | None = self._claims.get(*key)
        if claim is None:
            return
        if claim.status.phase == "Bound" and claim.metadata.deletion_timestamp is None:
            await self._tell_use(claim)
        await self._protection.protect(claim)

    async def _tell_use(self, claim: PersistentVolumeClaim) -> None:
        condition = unused_condition(claim, self._users.is_referenced(claim))
        if self._status is None or condition is None:
            return
        demands = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
        told = {**condition, "lastTransitionTime": format_time(self._clock.now())}
        patch = {"metadata": demands, "status": {"conditions": [told]}}
        await self._status.patch_status(self._claims.resource, claim, patch)


def pod_uses_pvc_for_deletion(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return True if the pod blocks the claim's deletion; a pod without a node does not, since it never starts.

    A claim created for a pod is released as soon as the pod is shut down; otherwise each would wait for the other.
    """
    return bool(pod.spec.node_name) and uses_claim(pod, claim, ephemeral=not pod_is_shut_down(pod))


def pod_is_shut_down(pod: Pod) -> bool:
    """Return True if the kubelet has finished the pod, or it was force-deleted."""
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds == 0


def unused_condition(claim: PersistentVolumeClaim, is_used: bool) -> dict[str, str] | None:
    """Return the condition to write; None if the claim already has it."""
    told: PersistentVolumeClaimCondition | None = next(
        (one for one in claim.status.conditions if one.type == UNUSED), None
    )
    if is_used:
        if told is not None and told.status != "True":
            return None
        return _condition("False", "PodUsingPVC", "A pod is currently referencing this PVC")
    if told is not None and told.status == "True":
        return None
    return _condition("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")


def _condition(status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": UNUSED, "status": status, "reason": reason, "message": message}


def claims_of_pod(pod: Pod) -> list[ObjectKey]:
    """Return the keys of the claims that a pod uses."""
    return [ObjectKey(pod.metadata.namespace, use.name) for use in claim_uses(pod)]


def _needs_condition(claim: PersistentVolumeClaim | None, tells_use: bool) -> bool:
    if claim is None or not tells_use or claim.status.phase != "Bound":
        return False
    return all(one.type != UNUSED for one in claim.status.conditions)


def _may_release(pod: Any) -> bool:
    """Return True for a pod that is gone, has ended, or has no node yet."""
    return pod is None or has_released_volumes(pod) or not pod.spec.node_name
