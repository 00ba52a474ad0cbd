# SPDX-License-Identifier: Apache-2.0
"""Executes plan steps for single pods and claims of a StatefulSet, and records events."""

from __future__ import annotations

from typing import Final

from kubeloop.api import codec
from kubeloop.api.errors import AlreadyExists, Conflict, NotFound
from kubeloop.api.generated.apps_v1 import StatefulSet
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.controllers.statefulset.claims import (
    claim_names_of,
    claims_of,
    has_unexpected_controller,
    is_claim_owner_up_to_date,
    updated_claim_owners,
)
from kubeloop.controllers.statefulset.identity import repair_patch, storage_matches
from kubeloop.controllers.statefulset.plan import PodAction, PodStep
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import key_of
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

CONFLICTING: Final = "ConflictingController"


class VolumeClaimCreationError(Exception):
    """Raised if some claims of a pod could not be created yet."""


class StatefulPodControl:
    """Creates, repairs and deletes the pods of sets."""

    def __init__(
        self, client: Client, recorder: EventRecorder, claims: Informer, consistency: ConsistencyStore
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._claims = claims
        self._claim_writer = PatchOrUpdate(client)
        self._consistency = consistency

    async def execute(self, set: StatefulSet, step: PodStep) -> None:
        """Execute one step of a plan."""
        match step.action:
            case PodAction.CREATE:
                await self._create(set, step.pod)
            case PodAction.DELETE:
                await self._delete(set, step.pod)
            case PodAction.ENSURE_CLAIMS:
                await self._create_claims(set, step.pod)
                await self._own_claims(set, step.pod, tell=True)
            case PodAction.OWN_CLAIMS:
                await self._own_claims(set, step.pod, tell=False)
            case PodAction.REPAIR:
                await self._repair(set, step.pod)

    # Pods

    async def _create(self, set: StatefulSet, pod: Pod) -> None:
        try:
            await self._create_claims(set, pod)
            made = await self._client.create(pod)
        except AlreadyExists:  # another owner's pod, or one that the cache does not show yet
            raise
        except Exception as error:
            self._tell(set, "Create", pod, error)
            raise
        self._consistency.wrote_at(key_of(set), "Pod", made)
        self._tell(set, "Create", pod)

    async def _delete(self, set: StatefulSet, pod: Pod) -> None:
        meta = pod.metadata
        try:
            answer = await self._client.delete(
                Pod, meta.name, meta.namespace, preconditions=Preconditions(uid=meta.uid)
            )
        except NotFound:
            answer = None
        except Conflict:
            return  # its successor already exists
        except Exception as error:
            self._tell(set, "Delete", pod, error)
            raise
        self._consistency.wrote_at(key_of(set), "Pod", answer)
        self._tell(set, "Delete", pod)

    async def _repair(self, set: StatefulSet, pod: Pod) -> None:
        try:
            if not storage_matches(set, pod):
                await self._create_claims(set, pod)
            await self._own_claims(set, pod, tell=False)
            patch = repair_patch(set, pod)
            if patch is not None:
                name, namespace = pod.metadata.name, pod.metadata.namespace
                changed = await self._client.patch(Pod, name, codec.to_plain(patch), namespace, type=STRATEGIC_PATCH)
                self._consistency.wrote_at(key_of(set), "Pod", changed)
        except Exception as error:
            self._tell(set, "Update", pod, error)
            raise
        self._tell(set, "Update", pod)

    # Claims

    async def _create_claims(self, set: StatefulSet, pod: Pod) -> None:
        """Create the missing claims; one that is being deleted must be gone first."""
        failures: list[str] = []
        for claim in claims_of(set, pod):
            there = self._claims.get(claim.metadata.namespace, claim.metadata.name)
            if there is None:
                failures += await self._create_claim(set, pod, claim)
            elif there.metadata.deletion_timestamp is not None:
                failures.append(f"pvc {claim.metadata.name} is being deleted")
        if failures:
            raise VolumeClaimCreationError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")

    async def _create_claim(self, set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> list[str]:
        name = claim.metadata.name
        try:
            made = await self._client.create(claim)
        except Exception as error:
            if not isinstance(error, AlreadyExists):
                message = f"Create Claim {name} for Pod {pod.metadata.name} in StatefulSet {set.metadata.name} failed"
                self._recorder.event(set, "Warning", "FailedCreate", f"{message} error: {error}")
            return [f"failed to create PVC {name}: {error}"]
        self._consistency.wrote_at(key_of(set), "PersistentVolumeClaim", made)
        message = f"Create Claim {name} Pod {pod.metadata.name} in StatefulSet {set.metadata.name} success"
        self._recorder.event(set, "Normal", "SuccessfulCreate", message)
        return []

    async def _own_claims(self, set: StatefulSet, pod: Pod, *, tell: bool) -> None:
        """Set the owners of existing claims by the retention policy."""
        try:
            for name in claim_names_of(set, pod):
                claim = self._claims.get(set.metadata.namespace, name)
                if claim is not None:
                    await self._own_claim(set, pod, claim)
        except Exception as error:
            if tell:
                self._tell(set, "Update", pod, error)
            raise

    async def _own_claim(self, set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> None:
        meta = claim.metadata
        if has_unexpected_controller(claim, set, pod):
            message = (
                f"PersistentVolumeClaim {meta.name} has a conflicting OwnerReference that acts as a manging controller"
                ", the retention policy is ignored for this claim"
            )
            self._recorder.event(set, "Warning", CONFLICTING, message)
        if is_claim_owner_up_to_date(claim, set, pod):
            return
        owners = codec.to_plain(updated_claim_owners(claim, set, pod)) or None
        changed = await self._claim_writer.patch_unchanged(
            self._claims.resource, claim, {"metadata": {"ownerReferences": owners}}
        )
        self._consistency.wrote_at(key_of(set), "PersistentVolumeClaim", changed)

    # Events

    def _tell(self, set: StatefulSet, what: str, pod: Pod, error: Exception | None = None) -> None:
        about = f"{what} Pod {pod.metadata.name} in StatefulSet {set.metadata.name}"
        if error is None:
            self._recorder.event(set, "Normal", f"Successful{what}", f"{about} successful")
        else:
            self._recorder.event(set, "Warning", f"Failed{what}", f"{about} failed error: {error}")
