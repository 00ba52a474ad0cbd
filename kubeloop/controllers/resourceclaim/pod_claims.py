# SPDX-License-Identifier: Apache-2.0
"""Creates the missing claims of one pod, reports them in its status, and reserves them if it is bound."""

from __future__ import annotations

from kubeloop.api import codec
from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Pod, PodResourceClaim
from kubeloop.api.generated.resource_v1 import ResourceClaim, ResourceClaimTemplate
from kubeloop.api.pods.pod import is_active
from kubeloop.api.requests import MERGE_PATCH, STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.controllers.resourceclaim.caches import ClaimCaches
from kubeloop.controllers.resourceclaim.metrics import ResourceClaimMetrics
from kubeloop.controllers.resourceclaim.policy import (
    ClaimNotCreated,
    UnknownClaimSource,
    belongs_to,
    claim_from_template,
    claim_of,
    consumer_of,
    lacks_reservation,
)
from kubeloop.runtime.events.recorder import EventRecorder


class ClaimCreationError(Exception):
    """Raised if a claim could not be created; recorded in the pod's events."""


class PodClaims:
    """Reconciles the claims of pods."""

    def __init__(
        self, client: Client, caches: ClaimCaches, recorder: EventRecorder, instruments: ResourceClaimMetrics
    ) -> None:
        self._client = client
        self._caches = caches
        self._recorder = recorder
        self._instruments = instruments

    def needs_work(self, pod: Pod) -> bool:
        """Return True if the caches show work to do for a pod."""
        if not is_active(pod):
            return False
        return any(self._needs_work(pod, wanted) for wanted in pod.spec.resource_claims)

    def _needs_work(self, pod: Pod, wanted: PodResourceClaim) -> bool:
        try:
            named = claim_of(pod, wanted)
        except (ClaimNotCreated, UnknownClaimSource):
            return True
        if named.name is None:
            return False
        claim: ResourceClaim | None = self._caches.informers.claims.get(pod.metadata.namespace, named.name)
        if claim is None:
            return named.is_generated
        if named.is_generated and not belongs_to(claim, pod):
            return False  # blocked until the other claim is removed
        return bool(pod.spec.node_name) and lacks_reservation(claim, pod)

    async def reconcile(self, pod: Pod) -> None:
        """Create and report the claims of one pod, and reserve them if it is bound."""
        if not is_active(pod):
            return
        made: dict[str, str] = {}
        for wanted in pod.spec.resource_claims:
            try:
                claim = await self._ensure(pod, wanted)
            except (ClaimCreationError, UnknownClaimSource) as error:
                told = f"PodResourceClaim {wanted.name}: {error}"
                self._recorder.event(pod, "Warning", "FailedResourceClaimCreation", told)
                raise
            if claim is not None:
                made[wanted.name] = claim.metadata.name
        if made:
            await self._tell(pod, made)
        if pod.spec.node_name:  # otherwise the scheduler reserves them
            await self._reserve(pod)

    # Creation

    async def _ensure(self, pod: Pod, wanted: PodResourceClaim) -> ResourceClaim | None:
        """Return the claim that the pod's status does not list yet; None if there is none."""
        try:
            named = claim_of(pod, wanted)
        except ClaimNotCreated:
            pass
        else:
            if named.name is None or await self._is_there(pod, named.name, named.is_generated):
                return None
        if wanted.resource_claim_template_name is None:
            return None
        return self._caches.find_generated(pod, wanted.name) or await self._make(pod, wanted)

    async def _is_there(self, pod: Pod, name: str, is_generated: bool) -> bool:
        if not is_generated:
            return True  # managed by the pod's author
        claim: ResourceClaim | None = self._caches.claims.get(pod.metadata.namespace, name)
        if claim is None:
            try:
                claim = await self._client.get(ResourceClaim, name, pod.metadata.namespace)
            except NotFound:
                return False
        return belongs_to(claim, pod)

    async def _make(self, pod: Pod, wanted: PodResourceClaim) -> ResourceClaim:
        name = wanted.resource_claim_template_name or ""
        template: ResourceClaimTemplate | None = self._caches.informers.templates.get(pod.metadata.namespace, name)
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            raise ClaimCreationError(f'resource claim template "{name}": {missing}')
        claim = claim_from_template(pod, wanted.name, template)
        try:
            made: ResourceClaim = await self._client.create(claim)
        except ApiError as error:
            self._instruments.record_created(claim, "failure")
            raise ClaimCreationError(f"create ResourceClaim : {error}") from error
        self._instruments.record_created(claim, "success")
        self._caches.claims.assume(made)
        return made

    # Reporting

    async def _tell(self, pod: Pod, made: dict[str, str]) -> None:
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in sorted(made.items())]
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
        meta = pod.metadata
        await self._client.patch(
            Pod, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
        )  # fmt: skip

    # Reservation

    async def _reserve(self, pod: Pod) -> None:
        """Reserve the claims of a pod that no scheduler has placed."""
        for wanted in pod.spec.resource_claims:
            try:
                named = claim_of(pod, wanted)
            except ClaimNotCreated:
                return  # its status is written, whose event enqueues this pod again
            if named.name is None:
                continue
            claim: ResourceClaim | None = self._caches.informers.claims.get(pod.metadata.namespace, named.name)
            if claim is None or (named.is_generated and not belongs_to(claim, pod)):
                return
            if lacks_reservation(claim, pod):
                await self._reserve_claim(claim, pod)

    async def _reserve_claim(self, claim: ResourceClaim, pod: Pod) -> None:
        meta = claim.metadata
        reserved = codec.to_plain((*claim.status.reserved_for, consumer_of(pod)))
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"reservedFor": reserved},
        }
        await self._client.patch(
            ResourceClaim, meta.name, patch, meta.namespace, type=MERGE_PATCH, subresource="status"
        )  # fmt: skip
