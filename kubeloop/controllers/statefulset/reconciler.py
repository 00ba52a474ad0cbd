# SPDX-License-Identifier: Apache-2.0
"""Reconciles one StatefulSet by one step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.controller_revisions import (
    RevisionWriter,
    revisions_to_truncate,
    sort_revisions,
)
from kubeloop.controllers.shared.ownership.dependents import Dependents
from kubeloop.controllers.statefulset.history import Rollout, StatefulSetHistory
from kubeloop.controllers.statefulset.identity import is_member, revision_of
from kubeloop.controllers.statefulset.plan import PlanStage, StatefulSetPlan, decide, members_of
from kubeloop.controllers.statefulset.stateful_pod_control import StatefulPodControl
from kubeloop.controllers.statefulset.status import (
    complete_update,
    seconds_until_next_available,
    status_of,
    status_patch,
)
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.controller import Result, TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.controller_ref_manager import ClaimOwner, LiveCheck, claim, live_check
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.slow_start import slow_start

COMPONENT: Final = "statefulset-controller"
RECREATE_GATE: Final = "StatefulSetRecreateStrategy"

SETS: Final = resource_of_class(StatefulSet)
PODS: Final = resource_of_class(Pod)
CLAIMS: Final = resource_of_class(PersistentVolumeClaim)
REVISIONS: Final = resource_of_class(ControllerRevision)
_STALE_SYNCS: Final = "statefulset_controller_stale_sync_skips_total"


class UnknownStrategy(TerminalError):
    """Raised for an update strategy whose feature gate is off."""


class Reconciler:
    """Reconciles stateful sets by key."""

    def __init__(self, context: ControllerContext, sets: Informer, pods: Dependents, revisions: Dependents) -> None:
        claims = context.informers.for_resource(CLAIMS)
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder.with_component(COMPONENT)
        self._status = PatchOrUpdate(context.client)
        self._sets = sets
        self._pods = pods
        self._claims = claims
        self._stored = revisions
        self._consistency = ConsistencyStore(
            sets,
            claims,
            *(context.informers.for_resource(one) for one in (PODS, REVISIONS)),
            stale_syncs=context.telemetry.registry.counter(_STALE_SYNCS, "group", "resource"),
        )
        self._revisions = RevisionWriter(context.client)
        self._history = StatefulSetHistory(self._revisions)
        self._members = StatefulPodControl(context.client, self._recorder, claims, self._consistency)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync one set: claim pods and revisions, execute the next steps, and report the status."""
        await self._consistency.wait_ready(key)
        set = self._sets.get(*key)
        if set is None:
            return None
        claimant = _claimant(set)
        check = live_check(set, SETS.kind, lambda: self._client.get(StatefulSet, key.name, key.namespace))
        ordered = await self._claimed_revisions(claimant, check)
        pods: list[Pod] = await claim(
            self._client, claimant, PODS, self._pods.claimable_by(set), check, lambda pod: is_member(set, pod)
        )
        self._refuse_unknown_strategy(set)
        rollout = await self._history.rollout_of(set, ordered)
        if rollout is None:
            return None
        self._consistency.wrote_at(key, REVISIONS.kind, rollout.update)
        try:
            result = await self._update_stateful_set(set, rollout, pods, self._clock.now())
        except Exception:
            await self._truncate_history(set, rollout, ordered, pods)
            raise
        await self._truncate_history(set, rollout, ordered, pods)
        return result

    async def _claimed_revisions(self, claimant: ClaimOwner, check: LiveCheck) -> Sequence[ControllerRevision]:
        found = self._stored.claimable_by(claimant.owner)
        return sort_revisions(await claim(self._client, claimant, REVISIONS, found, check))

    def _refuse_unknown_strategy(self, set: StatefulSet) -> None:
        if set.spec.update_strategy.type == "Recreate":
            where = f"{set.metadata.namespace}/{set.metadata.name}"
            message = f"statefulset {where} uses Recreate strategy but feature gate {RECREATE_GATE} is disabled"
            self._recorder.event(set, "Warning", "UnknownStrategy", message)
            raise UnknownStrategy(message)

    async def _update_stateful_set(
        self, set: StatefulSet, rollout: Rollout, pods: Sequence[Pod], now: datetime
    ) -> Result | None:
        """Execute the plan and report the status even if a step fails."""
        members = members_of(set, rollout, pods)
        plan = decide(set, rollout, members, lambda name: self._claims.get(set.metadata.namespace, name), now)
        updating, failure = await self._execute(set, plan)
        status = status_of(set, rollout, members.all, now)
        status = complete_update(set, replace(status, current_replicas=max(0, status.current_replicas - updating)))
        try:
            await self._report(set, status)
        except Exception as error:
            failure = failure or error
        if failure is not None:
            raise failure
        left = seconds_until_next_available(set, status, pods, now)
        return None if left is None else Result(requeue_after=left)

    async def _execute(self, set: StatefulSet, plan: StatefulSetPlan) -> tuple[int, Exception | None]:
        """Execute the plan; returns the number of pods deleted for the update and the failure that ended it."""
        for stage in plan.stages:
            done, failure = await self._carry_out_stage(set, stage, plan.is_concurrent and not stage.is_update)
            if failure is not None or stage.is_update:
                return done if stage.is_update else 0, failure
        return 0, None

    async def _carry_out_stage(self, set: StatefulSet, stage: PlanStage, at_once: bool) -> tuple[int, Exception | None]:
        async def work_on(number: int) -> None:
            for step in stage.work[number]:
                await self._members.execute(set, step)

        if at_once:
            return await slow_start(len(stage.work), work_on)
        for number in range(len(stage.work)):
            try:
                await work_on(number)
            except Exception as error:
                return number, error
        return len(stage.work), None

    async def _report(self, set: StatefulSet, status: StatefulSetStatus) -> None:
        patch = status_patch(set, status)
        if patch is not None:
            changed = await self._status.patch_status(SETS, set, patch)
            self._consistency.wrote_at(key_of(set), SETS.kind, changed)

    async def _truncate_history(
        self, set: StatefulSet, rollout: Rollout, ordered: Sequence[ControllerRevision], pods: Sequence[Pod]
    ) -> None:
        live = {revision_of(pod) for pod in pods} | {rollout.current.metadata.name, rollout.update.metadata.name}
        for revision in revisions_to_truncate(ordered, live, set.spec.revision_history_limit):
            await self._revisions.delete(revision)


def _claimant(set: StatefulSet) -> ClaimOwner:
    try:
        return ClaimOwner(set, SETS, label_selector_as_selector(set.spec.selector))
    except SelectorError as error:
        raise TerminalError(f"error converting StatefulSet selector: {error}") from error
