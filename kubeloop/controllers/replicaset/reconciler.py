# SPDX-License-Identifier: Apache-2.0
"""Reconciles one set to its desired number of pods; serves ReplicaSets and ReplicationControllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.pods.pod import is_active
from kubeloop.api.selectors import LabelSelector, SelectorError
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.replicaset.event_handlers import ReplicaPodHandler
from kubeloop.controllers.replicaset.pod_class import (
    POD_CLASSES,
    Pods,
    count_pods,
    group_by_class,
    group_key_of,
    pods_in_state,
    select_pods,
)
from kubeloop.controllers.replicaset.scaling import age_ratios, pods_per_node, pods_to_delete, surplus
from kubeloop.controllers.replicaset.status import count_replicas, seconds_until_next_available, status_patch
from kubeloop.controllers.shared.ownership import namespaces
from kubeloop.controllers.shared.pods.pod_control import PodControl, pod_from_template
from kubeloop.metrics import Histogram, exponential_bounds
from kubeloop.runtime.controller import Controller, Result, TerminalError
from kubeloop.runtime.informer.equivalence_groups import EquivalenceGroups
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import CONTROLLER, ORPHANS, controller_uid_of, orphan_namespace_of
from kubeloop.runtime.objects.controller_ref_manager import ClaimOwner, claim, live_check
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.expectations import TIMEOUT, Expectations
from kubeloop.runtime.queue.slow_start import slow_start
from kubeloop.runtime.queue.workqueue import WorkQueue

PODS = resource_of_class(Pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKind:
    """Differences between replica sets and replication controllers."""

    name: str
    component: str  # source component of events
    queue: str  # upstream's queue name, as dashboards know it
    resource: Resource
    condition: Callable[..., Any]
    selector_of: Callable[[Any], LabelSelector]
    counts_terminating: bool


def wire_kind(context: ControllerContext, kind: ReplicaKind, *, workers: int) -> Controller[ObjectKey]:
    """Build the controller for one of the kinds."""
    owners, pods = context.informers.for_resource(kind.resource), context.informers.for_resource(PODS)
    owners.add_indexer(CONTROLLER, controller_uid_of)
    pods.add_group_index(POD_CLASSES, group_key_of)
    pods.add_indexer(ORPHANS, orphan_namespace_of)
    expectations: Expectations[str] = Expectations(context.clock)
    reconciler = Reconciler(context, kind, owners, pods, expectations)
    registry = context.telemetry.registry
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=kind.queue, registry=registry)
    controller = Controller(
        kind.name, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    owners.add_handler(ResourceEventHandlerFuncs(on_delete=lambda owner: expectations.delete(owner.metadata.uid)))
    controller.watches(owners, own_key, resync=context.resync_period())
    controller.add_event_handler(pods, ReplicaPodHandler(queue, owners, expectations, kind.selector_of))
    return controller


class PodDeletionError(Exception):
    """Raised if a surplus pod could not be deleted."""


class Reconciler:
    """Reconciles sets of one kind by key."""

    def __init__(
        self,
        context: ControllerContext,
        kind: ReplicaKind,
        owners: Informer,
        pods: Informer,
        expectations: Expectations[str],
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._kind = kind
        self._owners = owners
        self._pods = pods
        self._expectations = expectations
        self._status = PatchOrUpdate(context.client)
        self._pod_control = PodControl(context.client, context.recorder.with_component(kind.component))
        self._age_ratios: Histogram = context.telemetry.registry.histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            bounds=exponential_bounds(0.25, 2, 6),
        ).with_labels()
        stale_syncs = context.telemetry.registry.counter(
            "replicaset_controller_stale_sync_skips_total", "group", "resource"
        )
        self._stale_syncs = stale_syncs.with_labels(PODS.group, PODS.plural)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync one set: claim pods, create or delete some, and report the status."""
        owner = self._owners.get(*key)
        if owner is None:
            return None
        selector = self._selector_of(owner)
        may_act = self._expectations.is_satisfied(owner.metadata.uid)  # before reading the pods that it refers to
        pods = {
            look: tuple(alike.values()) for look, alike in self._pods.by_group(POD_CLASSES, owner.metadata.uid).items()
        }
        active = await self._claim_pods(owner, selector, pods_in_state(pods, "active"))
        failure: Exception | None = None
        if not may_act:
            self._stale_syncs.value += 1
        elif owner.metadata.deletion_timestamp is None:
            failure = await self._scale(owner, active)
        now = self._clock.now()
        terminating = count_pods(select_pods(pods_in_state(pods, "terminating"), selector))
        await self._report(owner, active, terminating, failure, now)
        if failure is not None:
            raise failure
        return self._requeue_result(owner, active, now)

    def _selector_of(self, owner: Any) -> LabelSelector:
        try:
            return self._kind.selector_of(owner)
        except SelectorError as error:
            where = f"{owner.metadata.namespace}/{owner.metadata.name}"
            raise TerminalError(f"error converting pod selector to selector for rs {where}: {error}") from error

    # Claiming

    async def _claim_pods(self, owner: Any, selector: LabelSelector, active: Pods) -> Pods:
        """Return the active pods that belong to the owner; only adoption and release cost requests."""
        own = dict(select_pods(active, selector))
        contested = [pod for look, alike in active.items() if look not in own for pod in alike]
        orphans = self._pods.by_index(ORPHANS, owner.metadata.namespace)
        contested += [pod for pod in orphans if selector.matches(pod.metadata.labels) and is_active(pod)]
        if contested:
            for look, alike in group_by_class(*await self._claim(owner, selector, contested)).items():
                own[look] = (*own.get(look, ()), *alike)
        return own

    async def _claim(self, owner: Any, selector: LabelSelector, pods: Sequence[Pod]) -> list[Pod]:
        resource, meta = self._kind.resource, owner.metadata
        check = live_check(owner, resource.kind, lambda: self._client.get(resource, meta.name, meta.namespace))
        return await claim(self._client, ClaimOwner(owner, resource, selector), PODS, pods, check)

    # Scaling

    async def _scale(self, owner: Any, active: Pods) -> Exception | None:
        """Create or delete pods; a failure is returned, because the status must be reported first."""
        difference = surplus(count_pods(active), owner.spec.replicas)
        if difference < 0:
            return await self._create(owner, -difference)
        if difference > 0:
            return await self._delete(owner, active, difference)
        return None

    async def _create(self, owner: Any, missing: int) -> Exception | None:
        uid = owner.metadata.uid
        pod = pod_from_template(owner.spec.template, owner, self._kind.resource)
        made = 0

        async def create(_: int) -> None:
            nonlocal made
            try:
                await self._pod_control.create(pod, owner)
            except ApiError as error:
                if not namespaces.is_terminating(error):
                    raise
                # No pod can be created in this namespace: waiting for it to appear is as good as a retry.
            made += 1

        self._expectations.expect_creations(uid, missing)
        try:
            return (await slow_start(missing, create))[1]
        finally:  # also on cancellation: requests without a response are not expected
            self._expectations.lower(uid, creations=missing - made)

    async def _delete(self, owner: Any, active: Pods, count: int) -> Exception | None:
        uid = owner.metadata.uid
        chosen = self._pods_to_delete(owner, active, count)
        failures: list[Exception] = []

        async def delete(pod: Pod) -> None:
            try:
                await self._pod_control.delete(pod, owner)
            except BaseException as error:
                self._expectations.deletion_observed(uid, pod.metadata.uid)
                if not isinstance(error, Exception):
                    raise
                if not isinstance(error, NotFound):
                    failures.append(error)

        self._expectations.expect_deletions(uid, [pod.metadata.uid for pod in chosen])
        async with asyncio.TaskGroup() as group:
            for pod in chosen:
                group.create_task(delete(pod))
        return PodDeletionError(f"unable to delete pods: {failures[0]}") if failures else None

    def _pods_to_delete(self, owner: Any, active: Pods, count: int) -> list[Pod]:
        """Choose the pods to delete; with zero replicas all go, so no ranking is needed."""
        if owner.spec.replicas == 0:
            return list(islice(chain.from_iterable(active.values()), count))
        now = self._clock.now()
        chosen = pods_to_delete(active, pods_per_node(self._related_pods(owner)), count, now)
        for ratio in age_ratios(chosen, active, now):
            self._age_ratios.observe(ratio)
        return chosen

    def _related_pods(self, owner: Any) -> list[EquivalenceGroups]:
        """Return the pods of all sets with the same owner, such as a deployment's older and newer ones."""
        manager = controller_of(owner.metadata.owner_references)
        if manager is None:
            return []
        related = self._owners.by_index(CONTROLLER, manager.uid)
        return [self._pods.by_group(POD_CLASSES, one.metadata.uid) for one in related]

    # Reporting

    async def _report(
        self, owner: Any, active: Pods, terminating: int, failure: Exception | None, now: datetime
    ) -> None:
        counts = count_replicas(owner, active, terminating if self._kind.counts_terminating else None, now)
        said = None if failure is None else str(failure)
        patch = status_patch(owner, counts, said, self._kind.condition, now)
        if patch is not None:
            await self._status.patch_status(self._kind.resource, owner, patch)

    def _requeue_result(self, owner: Any, active: Pods, now: datetime) -> Result | None:
        waits = [seconds_until_next_available(active, owner.spec.min_ready_seconds, now)]
        if not self._expectations.is_satisfied(owner.metadata.uid):
            waits.append(TIMEOUT)
        known = [one for one in waits if one is not None]
        return Result(requeue_after=min(known)) if known else None
