"""A claim that a pod uses is not deleted; and each bound claim says whether any pod uses it, and since when none does.

Watches: claims; pods, for the claims that they use.
Owns: the finalizer `kubernetes.io/pvc-protection`, and the condition `Unused`.
Writes: finalizers of claims, and their status.
Wakes itself: never.
Differs from upstream: pods are listed anew only before a finalizer is removed; the condition goes by the cache, which
    tells of every change anyway. Claims of one namespace that are deleted at the same time share such a list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimCondition, Pod
from kubeloop.api.pods.volumes import (
    CLAIM_PROTECTION,
    PODS_BY_CLAIM,
    claim_keys_of,
    claim_uses,
    is_done_with_volumes,
    uses_claim,
)
from kubeloop.api.scalars.times import format_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.app.gates import is_on
from kubeloop.controllers.shared.ownership.protection import Protection
from kubeloop.controllers.shared.pods.coalesced_list import LivePods
from kubeloop.controllers.shared.status_writer import StatusWriter
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "persistentvolumeclaim-protection-controller"
QUEUE: Final = "pvcprotection"  # upstream's, as dashboards know it
WORKERS: Final = 30  # upstream's
GATE: Final = "PersistentVolumeClaimUnusedSinceTime"
UNUSED: Final = "Unused"


def wire(context: Context) -> Controller[ObjectKey]:
    claims = context.informers.of(resource_of_class(PersistentVolumeClaim))
    pods = context.informers.of(resource_of_class(Pod))
    pods.add_indexer(PODS_BY_CLAIM, claim_keys_of)
    tells_use = is_on(context.config.feature_gates, GATE, True)
    users = Users(pods, LivePods(context.client))
    protection = Protection(context.client, claims.resource, CLAIM_PROTECTION, users.is_in_use)
    status = StatusWriter(context.client, claims.resource) if tells_use else None
    reconciler = Reconciler(claims, users, protection, status, context.clock)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(
        claims, own_key, lambda old, new: _needs_condition(new, tells_use) or protection.concerns(old, new)
    )
    controller.watches(pods, claims_of_pod, lambda old, new: tells_use or _may_release(new))
    return controller


class Users:
    """The pods that use a claim."""

    def __init__(self, pods: Informer, live: LivePods) -> None:
        self._pods = pods
        self._live = live

    def refer_to(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a pod that has not ended names the claim."""
        return any(not is_done_with_volumes(pod) and uses_claim(pod, claim) for pod in self._cached(claim))

    async def is_in_use(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a node may have a pod with the claim. The cache may not show a pod yet that the server has."""
        if any(holds(pod, claim) for pod in self._cached(claim)):
            return True
        return any(holds(pod, claim) for pod in await self._live.of(claim.metadata.namespace))

    def _cached(self, claim: PersistentVolumeClaim) -> Iterable[Pod]:
        return self._pods.by_index(PODS_BY_CLAIM, f"{claim.metadata.namespace}/{claim.metadata.name}")


class Reconciler:
    def __init__(
        self, claims: Informer, users: Users, protection: Protection, status: StatusWriter | None, clock: Clock
    ) -> None:
        self._claims = claims
        self._users = users
        self._protection = protection
        self._status = status
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> None:
        claim: PersistentVolumeClaim | None = self._claims.get(*key)
        if claim is None:
            return
        if claim.status.phase == "Bound" and claim.metadata.deletion_timestamp is None:
            await self._tell_use(claim)
        await self._protection.protect(claim)

    async def _tell_use(self, claim: PersistentVolumeClaim) -> None:
        condition = unused_condition(claim, self._users.refer_to(claim))
        if self._status is None or condition is None:
            return
        demands = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
        told = {**condition, "lastTransitionTime": format_time(self._clock.now())}
        await self._status.write(claim, {"metadata": demands, "status": {"conditions": [told]}})


def holds(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod keeps the claim from being deleted. A pod without a node doesn't: no node will start it.

    A claim that was made for a pod is let go as soon as the pod is shut down, lest the two wait for each other.
    """
    return bool(pod.spec.node_name) and uses_claim(pod, claim, ephemeral=not is_shut_down(pod))


def is_shut_down(pod: Pod) -> bool:
    """The node is done with it, or it was deleted by force."""
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds == 0


def unused_condition(claim: PersistentVolumeClaim, is_used: bool) -> dict[str, str] | None:
    """What the claim should say of its use, if it says something else."""
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
    return [ObjectKey(pod.metadata.namespace, use.name) for use in claim_uses(pod)]


def _needs_condition(claim: PersistentVolumeClaim | None, tells_use: bool) -> bool:
    if claim is None or not tells_use or claim.status.phase != "Bound":
        return False
    return all(one.type != UNUSED for one in claim.status.conditions)


def _may_release(pod: Any) -> bool:
    """A pod that is gone, has ended, or has no node yet."""
    return pod is None or is_done_with_volumes(pod) or not pod.spec.node_name
