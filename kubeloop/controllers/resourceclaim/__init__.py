# SPDX-License-Identifier: Apache-2.0
"""Creates the resource claims of pods from templates, and deallocates claims that are no longer used.

pods, templates ──▶ pod_claims: create, report, reserve ──▶ claims, status of pods
pods, claims ─────▶ claim_consumers: remaining ones ───────▶ status and finalizer of claims, deletions

Watches: pods, resource claims, resource claim templates.
Owns: the claims that it creates from templates.
Writes: creates and deletes claims; their reservations, allocation and finalizer; `resourceClaimStatuses` of pods.
Wakes itself: never.
Differs from upstream: claims of pod groups are not supported; nothing is created for a pod that
  has ended; a deletion requires the UID of the evaluated claim.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import ResourceClaim, ResourceClaimTemplate
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.resourceclaim.caches import PODS_BY_CLAIM, PODS_BY_TEMPLATE, ClaimCaches, ClaimInformers
from kubeloop.controllers.resourceclaim.claim_consumers import ClaimConsumers
from kubeloop.controllers.resourceclaim.metrics import ResourceClaimMetrics
from kubeloop.controllers.resourceclaim.pod_claims import PodClaims
from kubeloop.controllers.resourceclaim.policy import claim_names, extended_claim_name, is_pod_done
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.objects.keys import key_of
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "resourceclaim-controller"
QUEUE = "resource_claim"
COMPONENT = "resource_claim"


class ResourceClaimKey(NamedTuple):
    """Queue key: a pod whose claims may have to be created, or a claim whose consumers may be gone."""

    kind: Literal["pod", "claim"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


def wire(context: ControllerContext) -> Controller[ResourceClaimKey]:
    """Build the controller and register its event handlers."""
    informed = ClaimInformers(
        context.informers.for_resource(resource_of_class(Pod)),
        context.informers.for_resource(resource_of_class(ResourceClaim)),
        context.informers.for_resource(resource_of_class(ResourceClaimTemplate)),
    )
    informed.add_indexers()
    registry = context.telemetry.registry
    caches, instruments = ClaimCaches(informed), ResourceClaimMetrics(registry)
    informed.claims.add_handler(instruments)
    pods = PodClaims(context.client, caches, context.recorder.with_component(COMPONENT), instruments)
    reconciler = Reconciler(caches, pods, ClaimConsumers(context.client, caches))
    queue: WorkQueue[ResourceClaimKey] = WorkQueue(context.clock, name=QUEUE, registry=registry)
    workers = context.config.concurrent_resourceclaim_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    waker = ClaimEventMapper(caches, pods, queue)
    controller.add_event_handler(
        informed.pods,
        ResourceEventHandlerFuncs(waker.handle_pod, lambda _, new: waker.handle_pod(new), waker.handle_pod_deleted),
    )
    controller.add_event_handler(
        informed.claims,
        ResourceEventHandlerFuncs(
            waker.handle_claim, lambda _, new: waker.handle_claim(new), waker.handle_claim_deleted
        ),
    )
    controller.add_event_handler(
        informed.templates,
        ResourceEventHandlerFuncs(waker.handle_template, lambda _, new: waker.handle_template(new)),
    )
    return controller


class Reconciler:
    """Dispatches keys of pods and claims."""

    def __init__(self, caches: ClaimCaches, pods: PodClaims, claims: ClaimConsumers) -> None:
        self._informed = caches.informers
        self._pods = pods
        self._claims = claims

    async def reconcile(self, key: ResourceClaimKey) -> None:
        """Sync one pod or one claim."""
        if key.kind == "pod":
            pod: Pod | None = self._informed.pods.get(key.namespace, key.name)
            if pod is not None:
                await self._pods.reconcile(pod)
            return
        claim: ResourceClaim | None = self._informed.claims.get(key.namespace, key.name)
        if claim is not None:
            await self._claims.reconcile(claim)


class ClaimEventMapper:
    """Maps events to keys; most pod events are irrelevant."""

    def __init__(self, caches: ClaimCaches, pods: PodClaims, queue: WorkQueue[ResourceClaimKey]) -> None:
        self._caches = caches
        self._informed = caches.informers
        self._pods = pods
        self._queue = queue

    def handle_pod(self, pod: Pod) -> None:
        """Enqueue a changed pod or its claims."""
        self._wake_for_pod(pod, "MODIFIED", done=is_pod_done(pod))

    def handle_pod_deleted(self, pod: Pod) -> None:
        """Record a deleted pod and enqueue its claims."""
        if pod.spec.resource_claims or extended_claim_name(pod):
            self._caches.record_deleted_pod(pod)
        self._wake_for_pod(pod, "DELETED", done=True)

    def _wake_for_pod(self, pod: Pod, event: Event, *, done: bool) -> None:
        extended = extended_claim_name(pod)
        if not pod.spec.resource_claims and not extended:
            return
        meta = pod.metadata
        origins = (Origin("Pod", meta.namespace, meta.name, meta.resource_version, event),)
        if done:
            for name in (*claim_names(pod), *((extended,) if extended else ())):
                self._queue.add(ResourceClaimKey("claim", meta.namespace, name), origins)
        if event != "DELETED" and self._pods.needs_work(pod):
            self._queue.add(ResourceClaimKey("pod", meta.namespace, meta.name), origins)

    def handle_claim(self, claim: ResourceClaim) -> None:
        """Enqueue a changed claim and the pods that use it."""
        meta = claim.metadata
        origins = (Origin("ResourceClaim", meta.namespace, meta.name, meta.resource_version, "MODIFIED"),)
        self._queue.add(ResourceClaimKey("claim", *key_of(claim)), origins)
        self._wake_users(claim)

    def handle_claim_deleted(self, claim: ResourceClaim) -> None:
        """Enqueue the pods that used a deleted claim."""
        self._wake_users(claim)

    def _wake_users(self, claim: ResourceClaim) -> None:
        for pod in self._informed.pods.by_index(PODS_BY_CLAIM, str(key_of(claim))):
            self.handle_pod(pod)

    def handle_template(self, template: ResourceClaimTemplate) -> None:
        """Enqueue the pods that use a changed template."""
        for pod in self._informed.pods.by_index(PODS_BY_TEMPLATE, str(key_of(template))):
            self.handle_pod(pod)
