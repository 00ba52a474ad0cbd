# SPDX-License-Identifier: Apache-2.0
"""Removes consumers that are gone from a claim; deallocates or deletes unused claims."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.generated.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.client import Client
from kubeloop.controllers.resourceclaim.caches import ClaimCaches
from kubeloop.controllers.resourceclaim.policy import FINALIZER, is_pod_done, owning_pod

Consumers = tuple[ResourceClaimConsumerReference, ...]


class ClaimConsumers:
    """Reconciles the consumers of claims."""

    def __init__(self, client: Client, caches: ClaimCaches) -> None:
        self._client = client
        self._caches = caches

    async def reconcile(self, claim: ResourceClaim) -> None:
        """Remove the consumers of one claim that are gone, and deallocate or delete it if unused."""
        remaining = await self._still_using(claim)
        is_protected = FINALIZER in claim.metadata.finalizers
        if len(remaining) < len(claim.status.reserved_for):
            claim = await self._write_consumers(claim, remaining, free=not remaining and is_protected)
            if claim.status.allocation is None:
                await self._unprotect(claim)
        elif is_protected and claim.metadata.deletion_timestamp is not None and not remaining:
            if claim.status.allocation is not None:
                claim = await self._write_consumers(claim, remaining, free=True)
            await self._unprotect(claim)
        if not remaining:
            await self._delete_if_left_over(claim)

    async def _still_using(self, claim: ResourceClaim) -> Consumers:
        return tuple([one for one in claim.status.reserved_for if await self._still_uses(claim, one)])

    async def _still_uses(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> bool:
        if consumer.api_group or consumer.resource != "pods":
            return True  # of an unknown kind
        if self._caches.is_deleted_pod(consumer.uid):
            return False
        pod: Pod | None = self._caches.informers.pods.get(claim.metadata.namespace, consumer.name)
        if pod is not None:
            return pod.metadata.uid == consumer.uid and not is_pod_done(pod)
        try:  # it may be too new for the cache, and about to be scheduled
            fresh = await self._client.get(Pod, consumer.name, claim.metadata.namespace)
        except NotFound:
            return False
        return fresh.metadata.uid == consumer.uid

    async def _write_consumers(self, claim: ResourceClaim, remaining: Consumers, *, free: bool) -> ResourceClaim:
        """Write the remaining consumers only if the claim is unchanged, since it may be reserved concurrently."""
        status: dict[str, Any] = {"reservedFor": codec.to_plain(remaining) or None}
        if free:
            status["allocation"] = None
        meta = claim.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
        written: ResourceClaim = await self._client.patch(
            ResourceClaim, meta.name, patch, meta.namespace, type=MERGE_PATCH, subresource="status"
        )  # fmt: skip
        return written

    async def _unprotect(self, claim: ResourceClaim) -> None:
        meta = claim.metadata
        if FINALIZER not in meta.finalizers:
            return
        kept = [one for one in meta.finalizers if one != FINALIZER]
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept or None}}
        await self._client.patch(ResourceClaim, meta.name, patch, meta.namespace, type=MERGE_PATCH)

    async def _delete_if_left_over(self, claim: ResourceClaim) -> None:
        """Delete a claim created for a pod as soon as the pod is done, even if the pod itself is kept.

        If the pod is not in the cache, the garbage collector decides, since the pod may be too new for the cache.
        """
        owner = owning_pod(claim)
        if owner is None or claim.metadata.deletion_timestamp is not None:
            return
        pod: Pod | None = self._caches.informers.pods.get(claim.metadata.namespace, owner.name)
        if pod is not None and (pod.metadata.uid != owner.uid or is_pod_done(pod)):
            meta = claim.metadata
            same = Preconditions(uid=meta.uid)
            try:
                await self._client.delete(ResourceClaim, meta.name, meta.namespace, preconditions=same)
            except NotFound:
                return
