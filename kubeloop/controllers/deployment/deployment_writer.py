# SPDX-License-Identifier: Apache-2.0
"""Writes deployments and replica sets, with events; each write is recorded until the cache shows it.

The status is updated as a whole, because the controller's role allows update but not patch; of that object the server
accepts only the status and the annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from kubeloop.api.errors import AlreadyExists, ApiError, Invalid, NotFound, conflict
from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.meta.field_path import quote
from kubeloop.api.meta.owner_references import is_controlled_by
from kubeloop.api.requests import JSON_PATCH, MERGE_PATCH
from kubeloop.client import Client
from kubeloop.client.errors import ClientError, TransportError
from kubeloop.clock import Clock
from kubeloop.controllers.deployment.conditions import CREATE_ERROR, PROGRESSING, condition
from kubeloop.controllers.deployment.observer import Observer
from kubeloop.controllers.deployment.progress import has_deadline, with_deployment_condition
from kubeloop.controllers.deployment.replica_sets import Scaling, equal_ignore_hash, replicas_of
from kubeloop.controllers.deployment.scaling import size_annotations
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.runtime.events.recorder import EventRecorder

replace = msgspec.structs.replace


class DeploymentWriter:
    """Performs and records the controller's writes."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        observer: Observer,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._deployments = observer.assumed_deployments
        self._replica_sets = observer.assumed_replica_sets

    async def update_status(self, before: Deployment, after: Deployment) -> None:
        """Write the status and revision of a deployment if they have changed."""
        if after.status == before.status and after.metadata.annotations == before.metadata.annotations:
            return
        saved = await self._client.update(after, subresource="status")
        self._deployments.assume(saved)

    async def update(self, deployment: Deployment) -> None:
        """Update the deployment itself; used only for a requested rollback."""
        saved = await self._client.update(deployment)
        self._deployments.assume(saved)

    def record_event(self, deployment: Deployment, type: str, reason: str, message: str) -> None:
        """Record an event on the deployment."""
        self._recorder.event(deployment, type, reason, message)

    async def scale(self, deployment: Deployment, scaling: Scaling) -> ReplicaSet:
        """Scale a replica set and annotate it with the size of the deployment."""
        one, size = scaling
        scaled = await self._patch(deployment, one, *resize_patch(one, size, size_annotations(deployment)))
        if size != replicas_of(one):
            self._tell_of_scaling(deployment, scaled, replicas_of(one))
        return scaled

    async def sync_new_replica_set(
        self, deployment: Deployment, one: ReplicaSet, annotations: dict[str, str]
    ) -> ReplicaSet:
        """Update the new replica set's fields that may change without a new template."""
        seconds = deployment.spec.min_ready_seconds
        spec = {"minReadySeconds": seconds} if one.spec.min_ready_seconds != seconds else {}
        if not spec and not annotations:
            return one
        patch = {"metadata": {"uid": one.metadata.uid, "annotations": annotations}, "spec": spec}
        return await self._patch(deployment, one, patch, MERGE_PATCH)

    async def delete(self, one: ReplicaSet) -> None:
        """Delete the replica set if it still exists with this UID."""
        meta = one.metadata
        try:
            await self._client.delete(
                ReplicaSet, meta.name, meta.namespace, preconditions=Preconditions(uid=meta.uid)
            )  # fmt: skip
        except NotFound:
            return

    async def create(self, deployment: Deployment, wanted: ReplicaSet) -> tuple[ReplicaSet, bool]:
        """Create the replica set; returns it and True if it is new. A failure is reported in status and event."""
        try:
            made: ReplicaSet = await self._client.create(wanted)
        except AlreadyExists:
            if (found := await self._existing(deployment, wanted)) is None:
                raise  # retried under another name
            return found, False
        except ApiError as error:
            if not is_terminating(error):
                await self._tell_of_failure(deployment, wanted, error)
            raise
        except TransportError:
            await self._assume_unanswered(deployment, wanted)
            raise
        self._replica_sets.assume(made)
        if replicas_of(made) > 0:
            self._tell_of_scaling(deployment, made, 0)
        return made, True

    async def _assume_unanswered(self, deployment: Deployment, wanted: ReplicaSet) -> None:
        """Look for a replica set whose creation had no answer, so that the next sync counts its pods."""
        meta = wanted.metadata
        with suppress(ApiError, ClientError):
            found = await self._client.get(ReplicaSet, meta.name, meta.namespace)
            if is_controlled_by(found.metadata.owner_references, deployment.metadata.uid):
                self._replica_sets.assume(found)

    async def _existing(self, deployment: Deployment, wanted: ReplicaSet) -> ReplicaSet | None:
        """Return the existing replica set if it is ours; otherwise the hash collides, so count the collision.

        A higher collision count gives the next attempt another name.
        """
        meta = wanted.metadata
        found = await self._client.get(ReplicaSet, meta.name, meta.namespace)
        is_ours = is_controlled_by(found.metadata.owner_references, deployment.metadata.uid)
        if is_ours and equal_ignore_hash(found.spec.template, deployment.spec.template):
            self._replica_sets.assume(found)
            return found
        collisions = (deployment.status.collision_count or 0) + 1
        await self.update_status(
            deployment, replace(deployment, status=replace(deployment.status, collision_count=collisions))
        )
        return None

    async def _tell_of_failure(self, deployment: Deployment, wanted: ReplicaSet, error: ApiError) -> None:
        message = f"Failed to create new replica set {quote(wanted.metadata.name)}: {error}"
        if has_deadline(deployment):
            failed = condition(PROGRESSING, "False", CREATE_ERROR, message, self._clock.now())
            with suppress(ApiError):  # the original failure is more important
                await self.update_status(deployment, with_deployment_condition(deployment, failed))
        self.record_event(deployment, "Warning", CREATE_ERROR, message)

    def _tell_of_scaling(self, deployment: Deployment, scaled: ReplicaSet, before: int) -> None:
        after = replicas_of(scaled)
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {scaled.metadata.name} from {before} to {after}"
        self.record_event(deployment, "Normal", "ScalingReplicaSet", message)

    async def _patch(self, deployment: Deployment, one: ReplicaSet, patch: Any, type: str) -> ReplicaSet:
        meta = one.metadata
        try:
            changed: ReplicaSet = await self._client.patch(ReplicaSet, meta.name, patch, meta.namespace, type=type)
        except Invalid as error:  # also returned for a failed test operation; then only the cache is outdated
            raise conflict("apps", "replicasets", meta.name, str(error)) from error
        self._replica_sets.assume(changed)
        return changed


def resize_patch(one: ReplicaSet, size: int, annotations: Mapping[str, str]) -> tuple[Any, str]:
    """Build a patch and its type that fails for another object of this name or for another current size.

    It requires no resourceVersion: the status of replica sets changes often, so that such a write would conflict again
    and again.
    """
    meta, before = one.metadata, replicas_of(one)
    if not meta.annotations:  # JSON patch needs an existing map, and a test cannot check for its absence
        demanded = {"resourceVersion": meta.resource_version, "annotations": dict(annotations)}
        return {"metadata": demanded, "spec": {"replicas": size}}, MERGE_PATCH
    return [
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "test", "path": "/spec/replicas", "value": before},
        {"op": "replace", "path": "/spec/replicas", "value": size},
        *(
            {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value}
            for key, value in annotations.items()
        ),
    ], JSON_PATCH
