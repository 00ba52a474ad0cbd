# SPDX-License-Identifier: Apache-2.0
"""Writes claims during binding: creates, allocates and reserves them; deallocates them if binding fails."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from kubeloop.api.codec import to_plain
from kubeloop.api.errors import ApiError, Conflict, NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.framework.status import SchedulingError

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_TRIES: Final = 5

log = logging.getLogger(__name__)


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return True if the claim is reserved for the pod."""
    return any(one.uid == pod.metadata.uid for one in claim.status.reserved_for)


class ClaimWriter:
    """Writes claims, with retries on conflicts."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Create an extended resource claim. Raises `SchedulingError`."""
        body = to_plain(claim)
        body.pop("status", None)
        for name in ("name", "uid"):  # placeholders of the in-memory claim
            body["metadata"].pop(name, None)
        try:
            made: ResourceClaim = await self._client.create(body)
        except (ApiError, ClientError) as error:
            meta = claim.metadata
            raise SchedulingError(f"create claim for extended resources {meta.namespace}/: {error}") from error
        return made

    async def bind_claim(self, claim: ResourceClaim, allocation: dict[str, Any] | None, pod: Pod) -> ResourceClaim:
        """Write the allocation, if it is new, and the reservation for the pod. Raises `SchedulingError`."""
        key = key_of(claim)
        for _ in range(_TRIES):
            if claim.metadata.deletion_timestamp is not None:
                raise SchedulingError(f"claim {key} got deleted in the meantime")
            if allocation is not None and claim.status.allocation is not None:
                raise SchedulingError(f"claim {key} got allocated elsewhere in the meantime")
            if allocation is None and claim.status.allocation is None:
                raise SchedulingError(f"claim {key} got deallocated elsewhere in the meantime")
            if is_reserved_for(claim, pod):
                return claim
            try:
                return await self._update(claim, allocation, pod)
            except ApiError as error:
                if not isinstance(error, Conflict):
                    what = "reservation" if allocation is None else "allocation and reservation"
                    raise SchedulingError(f"add {what} to claim {key}: {error}") from error
                await asyncio.sleep(0)
                claim = await self._client.get(ResourceClaim, key.name, key.namespace)
        raise SchedulingError(f"claim {key} keeps changing")

    async def _update(self, claim: ResourceClaim, allocation: dict[str, Any] | None, pod: Pod) -> ResourceClaim:
        meta = claim.metadata
        if allocation is not None and FINALIZER not in meta.finalizers:
            change = {"resourceVersion": meta.resource_version, "finalizers": [*meta.finalizers, FINALIZER]}
            claim = await self._client.patch(ResourceClaim, meta.name, {"metadata": change}, meta.namespace)
        reserved = [to_plain(one) for one in claim.status.reserved_for]
        reserved.append({"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid})
        status: dict[str, Any] = {"reservedFor": reserved}
        if allocation is not None:
            status["allocation"] = {**allocation, "allocationTimestamp": format_time(self._clock.now())}
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        written: ResourceClaim = await self._client.patch(
            ResourceClaim, meta.name, body, meta.namespace, subresource="status"
        )
        return written

    async def patch_pod_status(self, pod: Pod, status: dict[str, Any]) -> None:
        """Write the extendedResourceClaimStatus of a pod. Raises `SchedulingError`."""
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            await self._client.patch(Pod, meta.name, body, meta.namespace, type=STRATEGIC_PATCH, subresource="status")
        except ApiError as error:
            why = f"update pod {key_of(pod)} ExtendedResourceClaimStatus: {error}"
            raise SchedulingError(why) from error

    # Undoing.

    async def unreserve_claim(self, claim: ResourceClaim, pod: Pod) -> None:
        """Remove the reservation for the pod; the allocation is kept."""
        meta = claim.metadata
        gone = [{"$patch": "delete", "uid": pod.metadata.uid}]
        body = {"metadata": {"uid": meta.uid}, "status": {"reservedFor": gone}}
        try:
            await self._client.patch(
                ResourceClaim, meta.name, body, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
            )
        except (ApiError, ClientError) as error:
            log.info("failed to remove the reservation of %s: %s", key_of(claim), error)

    async def deallocate_claim(self, claim: ResourceClaim) -> None:
        """Deallocate a claim, so that it may get other devices."""
        meta = claim.metadata
        status = {"reservedFor": None, "allocation": None, "devices": None}
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        try:
            await self._client.patch(ResourceClaim, meta.name, body, meta.namespace, subresource="status")
        except (ApiError, ClientError) as error:
            log.info("failed to deallocate the devices of %s: %s", key_of(claim), error)

    async def delete_claim(self, claim: ResourceClaim) -> None:
        """Delete an unused extended resource claim, removing the scheduler's finalizer first."""
        key, uid = key_of(claim), claim.metadata.uid
        try:
            for _ in range(_TRIES):
                meta = claim.metadata
                if meta.uid != uid:
                    return
                kept = [one for one in meta.finalizers if one != FINALIZER]
                body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept}}
                try:
                    if len(kept) < len(meta.finalizers):
                        await self._client.patch(ResourceClaim, key.name, body, key.namespace)
                    break
                except Conflict:
                    claim = await self._client.get(ResourceClaim, key.name, key.namespace)
            await self._client.delete(ResourceClaim, key.name, key.namespace, preconditions=Preconditions(uid=uid))
        except NotFound:
            return
        except (ApiError, ClientError) as error:
            log.info("failed to delete %s: %s", key, error)
