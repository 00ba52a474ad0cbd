# SPDX-License-Identifier: Apache-2.0
"""Reconciles one deployment by one step: observe, decide, act, report."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.apps_v1 import Deployment, DeploymentStatus
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.meta.field_path import quote
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.deployment import recreate, rollback
from kubeloop.controllers.deployment.conditions import CREATED, FOUND, PROGRESSING, condition
from kubeloop.controllers.deployment.creation import new_replica_set
from kubeloop.controllers.deployment.deployment_writer import DeploymentWriter
from kubeloop.controllers.deployment.limits import RECREATE, ROLLING
from kubeloop.controllers.deployment.observer import DeploymentCaches, Observer
from kubeloop.controllers.deployment.progress import (
    has_deadline,
    rollout_status,
    seconds_until_timeout,
    with_deployment_condition,
    with_paused_condition,
)
from kubeloop.controllers.deployment.replica_sets import (
    ReplicaSets,
    Scaling,
    desired_replicas,
    replicas_of,
    split_replica_sets,
)
from kubeloop.controllers.deployment.revisions import (
    REVISION,
    changed_annotations,
    max_revision,
    replica_sets_to_clean_up,
)
from kubeloop.controllers.deployment.rolling_update import new_replicas, plan_scale_down
from kubeloop.controllers.deployment.scaling import is_scaling_event, plan_scale
from kubeloop.controllers.deployment.status import is_deployment_complete, status_of
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.runtime.controller import Result, TerminalError
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.objects.keys import ObjectKey

replace = msgspec.structs.replace


class Reconciler:
    """Reconciles deployments by key."""

    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock, caches: DeploymentCaches) -> None:
        self._clock = clock
        self._observer = Observer(client, caches)
        self._writer = DeploymentWriter(client, recorder, clock, self._observer)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync one deployment: adopt replica sets, scale them or advance the rollout, and report the status."""
        deployment = self._observer.deployment(key)
        if deployment is None:
            return None
        if deployment.spec.selector == LabelSelector():
            await self._refuse(deployment)
            return None
        members = await self._observer.replica_sets(deployment)
        if members is None:
            return None
        try:
            return await self._step(deployment, split_replica_sets(deployment, members))
        except ApiError as error:
            if is_terminating(error):
                return None  # every creation fails from now on
            raise

    # Decide and act

    async def _refuse(self, deployment: Deployment) -> None:
        message = "This deployment is selecting all pods. A non-empty selector is required."
        self._writer.record_event(deployment, "Warning", "SelectingAll", message)
        status, generation = deployment.status, deployment.metadata.generation
        if status.observed_generation < generation:
            await self._report(deployment, deployment, replace(status, observed_generation=generation))

    async def _step(self, stored: Deployment, family: ReplicaSets) -> Result | None:
        now = self._clock.now()
        if stored.metadata.deletion_timestamp is not None:
            await self._report(stored, stored, status_of(stored, family, now))
            return None
        deployment = with_paused_condition(stored, now)
        deployment, family = await self._sync_new_replica_set(deployment, family, now)
        if deployment.spec.paused:
            family = await self._scale_all(deployment, family, plan_scale(deployment, family))
            if rollback.rollback_revision(stored) is None:
                await self._clean_up(deployment, family)
            await self._report(stored, deployment, status_of(deployment, family, now))
            return None
        if (asked := rollback.rollback_revision(stored)) is not None:
            await self._roll_back(deployment, family, asked)
            return None
        if is_scaling_event(deployment, family) and (plan := plan_scale(deployment, family)):
            family = await self._scale_all(deployment, family, plan)
            await self._report(stored, deployment, status_of(deployment, family, now))
            return None
        deployment, family = await self._roll_out(deployment, family, now)
        status = rollout_status(deployment, family, now)
        if is_deployment_complete(deployment, status):
            await self._clean_up(deployment, family)
        await self._report(stored, deployment, status)
        return Result(seconds_until_timeout(deployment, status, now))

    async def _sync_new_replica_set(
        self, deployment: Deployment, family: ReplicaSets, now: datetime
    ) -> tuple[Deployment, ReplicaSets]:
        """Copy the deployment's annotations to its new replica set, if any, and set the deployment's revision."""
        if family.new is None:
            return deployment, family
        changed = changed_annotations(deployment, family.new, max_revision(family.old) + 1)
        new = await self._writer.sync_new_replica_set(deployment, family.new, changed)
        deployment = _with_revision(deployment, new.metadata.annotations.get(REVISION, ""))
        if has_deadline(deployment) and find_condition(deployment.status.conditions, PROGRESSING) is None:
            message = f"Found new replica set {quote(new.metadata.name)}"
            deployment = with_deployment_condition(deployment, condition(PROGRESSING, "True", FOUND, message, now))
        return deployment, ReplicaSets(new, family.old)

    async def _roll_out(
        self, deployment: Deployment, family: ReplicaSets, now: datetime
    ) -> tuple[Deployment, ReplicaSets]:
        """Advance the rollout by one step."""
        strategy = deployment.spec.strategy.type
        if strategy == ROLLING:
            deployment, family = await self._ensure_new_replica_set(deployment, family, now)
            family = await self._scale_new(deployment, family, new_replicas(deployment, family))
            return deployment, await self._scale_all(deployment, family, plan_scale_down(deployment, family))
        if strategy != RECREATE:
            raise TerminalError(f"unexpected deployment strategy type: {strategy}")
        if plan := recreate.scale_down_old(family):
            return deployment, await self._scale_all(deployment, family, plan)
        if recreate.has_old_pods_running(family, self._observer.pods):
            return deployment, family
        deployment, family = await self._ensure_new_replica_set(deployment, family, now)
        return deployment, await self._scale_new(deployment, family, desired_replicas(deployment))

    async def _ensure_new_replica_set(
        self, deployment: Deployment, family: ReplicaSets, now: datetime
    ) -> tuple[Deployment, ReplicaSets]:
        """Create the new replica set if it is missing."""
        if family.new is not None:
            return deployment, family
        revision = max_revision(family.old) + 1
        new, is_created = await self._writer.create(deployment, new_replica_set(deployment, family, revision))
        deployment = _with_revision(deployment, str(revision))
        if is_created and has_deadline(deployment):
            message = f"Created new replica set {quote(new.metadata.name)}"
            deployment = with_deployment_condition(deployment, condition(PROGRESSING, "True", CREATED, message, now))
        return deployment, ReplicaSets(new, family.old)

    async def _scale_new(self, deployment: Deployment, family: ReplicaSets, size: int) -> ReplicaSets:
        new = family.new
        if new is None or replicas_of(new) == size:
            return family
        return await self._scale_all(deployment, family, (Scaling(new, size),))

    async def _scale_all(self, deployment: Deployment, family: ReplicaSets, plan: Iterable[Scaling]) -> ReplicaSets:
        for one in plan:
            family = family.replace_member(await self._writer.scale(deployment, one))
        return family

    async def _clean_up(self, deployment: Deployment, family: ReplicaSets) -> None:
        for one in replica_sets_to_clean_up(deployment, family.old):
            await self._writer.delete(one)

    async def _roll_back(self, deployment: Deployment, family: ReplicaSets, asked: int) -> None:
        deployment, family = await self._ensure_new_replica_set(deployment, family, self._clock.now())
        outcome = rollback.roll_back(deployment, family, asked)
        await self._writer.update(outcome.deployment)
        self._writer.record_event(deployment, outcome.type, outcome.reason, outcome.message)

    # Report

    async def _report(self, stored: Deployment, deployment: Deployment, status: DeploymentStatus) -> None:
        await self._writer.update_status(stored, replace(deployment, status=status))


def _with_revision(deployment: Deployment, revision: str) -> Deployment:
    meta = deployment.metadata
    if meta.annotations.get(REVISION) == revision:
        return deployment
    return replace(deployment, metadata=replace(meta, annotations={**meta.annotations, REVISION: revision}))
