# SPDX-License-Identifier: Apache-2.0
"""Reconciles one DaemonSet by one step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.apps_v1 import ControllerRevision, DaemonSet
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.daemonset import manage, rolling_update
from kubeloop.controllers.daemonset.failed_pods_backoff import FailedPodsBackoffManager
from kubeloop.controllers.daemonset.history import DaemonSetHistory, HashCollision, RevisionHistory
from kubeloop.controllers.daemonset.manage import PodChanges
from kubeloop.controllers.daemonset.pods import DaemonSetView, by_node, new_pod, view_of
from kubeloop.controllers.daemonset.status import seconds_until_next_available, status_of, status_patch
from kubeloop.controllers.shared.ownership import namespaces
from kubeloop.controllers.shared.ownership.controller_revisions import RevisionWriter
from kubeloop.controllers.shared.ownership.dependents import Dependents
from kubeloop.controllers.shared.pods.pod_control import PodControl
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.controller import Result, TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.controller_ref_manager import ClaimOwner, claim, live_check
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.expectations import TIMEOUT, Expectations
from kubeloop.runtime.queue.slow_start import slow_start

COMPONENT: Final = "daemonset-controller"
BURST: Final = 250  # pods created, and as many deleted, before the controller waits to see them

SETS: Final = resource_of_class(DaemonSet)
PODS: Final = resource_of_class(Pod)
NODES: Final = resource_of_class(Node)
REVISIONS: Final = resource_of_class(ControllerRevision)
_STALE_SYNCS: Final = "daemonset_controller_stale_sync_skips_total"


class Reconciler:
    """Reconciles daemon sets by key."""

    def __init__(
        self, context: ControllerContext, pods: Dependents, revisions: Dependents, expectations: Expectations[str]
    ) -> None:
        informers = context.informers
        self._client = context.client
        self._clock = context.clock
        self._sets: Informer = informers.for_resource(SETS)
        self._nodes: Informer = informers.for_resource(NODES)
        self._pods = pods
        self._stored = revisions
        self._expectations = expectations
        stale_syncs = context.telemetry.registry.counter(_STALE_SYNCS, "group", "resource")
        self._consistency = ConsistencyStore(self._sets, informers.for_resource(REVISIONS), stale_syncs=stale_syncs)
        self._recorder = context.recorder.with_component(COMPONENT)
        self._control = PodControl(context.client, self._recorder)
        self._status = PatchOrUpdate(context.client)
        self._history = DaemonSetHistory(context.client, RevisionWriter(context.client))
        self._backoff = FailedPodsBackoffManager(context.clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync one set: claim pods and revisions, create and delete pods, and report the status."""
        await self._consistency.wait_ready(key)
        daemon_set = self._sets.get(*key)
        if daemon_set is None or daemon_set.metadata.deletion_timestamp is not None or self._selects_all(daemon_set):
            return None
        may_act = self._expectations.is_satisfied(daemon_set.metadata.uid)  # before reading the pods that it refers to
        pods, revisions = await self._claim_dependents(daemon_set)
        past = await self._construct_history(daemon_set, revisions, pods)
        if past is None:
            return None
        view = view_of(daemon_set, self._nodes.list(), pods, past.hash, self._clock.now())
        if not may_act:
            await self._report(view, processed=False)
            return Result(requeue_after=TIMEOUT)
        return await self._update_daemon_set(view, past, pods)

    def _selects_all(self, daemon_set: DaemonSet) -> bool:
        if daemon_set.spec.selector != LabelSelector():
            return False
        message = "This daemon set is selecting all pods. A non-empty selector is required."
        self._recorder.event(daemon_set, "Warning", "SelectingAll", message)
        return True

    # Claiming

    async def _claim_dependents(self, daemon_set: DaemonSet) -> tuple[list[Pod], list[ControllerRevision]]:
        meta = daemon_set.metadata
        try:
            claimant = ClaimOwner(daemon_set, SETS, label_selector_as_selector(daemon_set.spec.selector))
        except SelectorError as error:
            raise TerminalError(f"error converting DaemonSet selector: {error}") from error
        check = live_check(daemon_set, SETS.kind, lambda: self._client.get(DaemonSet, meta.name, meta.namespace))
        stored = self._stored.claimable_by(daemon_set)
        revisions: list[ControllerRevision] = await claim(self._client, claimant, REVISIONS, stored, check)
        pods: list[Pod] = await claim(self._client, claimant, PODS, self._pods.claimable_by(daemon_set), check)
        return pods, revisions

    async def _construct_history(
        self, daemon_set: DaemonSet, revisions: Sequence[ControllerRevision], pods: Sequence[Pod]
    ) -> RevisionHistory | None:
        """Return the set's revisions; None after a hash collision, whose status write enqueues the set again."""
        try:
            past = await self._history.construct_history(daemon_set, revisions, pods)
        except HashCollision:
            count = (daemon_set.status.collision_count or 0) + 1
            unchanged = {"resourceVersion": daemon_set.metadata.resource_version}
            await self._status.patch_status(
                SETS, daemon_set, {"metadata": unchanged, "status": {"collisionCount": count}}
            )
            return None
        self._consistency.wrote_at(key_of(daemon_set), REVISIONS.kind, past.current)
        return past

    # Acting

    async def _update_daemon_set(
        self, view: DaemonSetView, past: RevisionHistory, pods: Sequence[Pod]
    ) -> Result | None:
        """Execute the next changes and report the status even if some fail."""
        changes, wait = self._decide(view)
        failure = await self._sync_nodes(view, changes)
        if failure is None:
            await self._history.cleanup_history(view.daemon_set, past, pods)
        if changes.create_on or changes.delete:
            view = replace(view, pods=by_node(self._pods.owned_by(view.daemon_set)), now=self._clock.now())
        try:
            next_available = await self._report(view, processed=True)
        except Exception as error:
            raise failure or error from None
        if failure is not None:
            raise failure
        waits = [one for one in (wait, next_available) if one is not None]
        return Result(requeue_after=min(waits)) if waits else None

    def _decide(self, view: DaemonSetView) -> tuple[PodChanges, float | None]:
        """Decide the changes, and the seconds until failed pods in backoff may be replaced."""
        changes = manage.decide(view)
        wait = self._remove_ended(view.daemon_set, changes)
        if not changes.create_on and not changes.delete and view.daemon_set.spec.update_strategy.type != "OnDelete":
            changes = rolling_update.decide(view)
        return changes, wait

    def _remove_ended(self, daemon_set: DaemonSet, changes: PodChanges) -> float | None:
        """Mark terminal pods for deletion, with events; returns the seconds for those still in backoff."""
        meta = daemon_set.metadata
        waits: list[float] = []
        for node, pod in changes.failed:
            place = (meta.uid, daemon_set.status.observed_generation, node)
            if (left := self._backoff.seconds_left(place)) > 0:
                waits.append(left)
                continue
            self._backoff.record_replacement(place)
            message = f"Found failed daemon pod {_where(pod)} on node {node}, will try to kill it"
            self._recorder.event(daemon_set, "Warning", "FailedDaemonPod", message)
            changes.delete.append(pod)
        for node, pod in changes.succeeded:
            message = f"Found succeeded daemon pod {_where(pod)} on node {node}, will try to delete it"
            self._recorder.event(daemon_set, "Normal", "SucceededDaemonPod", message)
            changes.delete.append(pod)
        return min(waits, default=None)

    async def _sync_nodes(self, view: DaemonSetView, changes: PodChanges) -> Exception | None:
        nodes, pods = changes.create_on[:BURST], changes.delete[:BURST]
        if not nodes and not pods:
            return None
        uid = view.daemon_set.metadata.uid
        self._expectations.expect(uid, creations=len(nodes), deletions=len(pods))
        expected = self._expectations.get(uid)
        if expected is not None:
            expected.uids.update(pod.metadata.uid for pod in pods)
        failure = await self._create(view, nodes)
        return await self._delete(view.daemon_set, pods) or failure

    async def _create(self, view: DaemonSetView, nodes: Sequence[str]) -> Exception | None:
        daemon_set, made = view.daemon_set, 0

        async def create(number: int) -> None:
            nonlocal made
            try:
                await self._control.create(new_pod(daemon_set, nodes[number], view.hash), daemon_set)
            except ApiError as error:
                if not namespaces.is_terminating(error):
                    raise
                # No pod can be created in this namespace: waiting for it to appear is as good as a retry.
            made += 1

        try:
            return (await slow_start(len(nodes), create))[1]
        finally:  # also on cancellation: requests without a response are not expected
            self._expectations.lower(daemon_set.metadata.uid, creations=len(nodes) - made)

    async def _delete(self, daemon_set: DaemonSet, pods: Sequence[Pod]) -> Exception | None:
        failures: list[Exception] = []

        async def delete(pod: Pod) -> None:
            try:
                await self._control.delete(pod, daemon_set)
            except BaseException as error:
                self._expectations.deletion_observed(daemon_set.metadata.uid, pod.metadata.uid)
                if not isinstance(error, Exception):
                    raise
                if not isinstance(error, NotFound):
                    failures.append(error)

        async with asyncio.TaskGroup() as group:
            for pod in pods:
                group.create_task(delete(pod))
        return failures[0] if failures else None

    # Reporting

    async def _report(self, view: DaemonSetView, *, processed: bool) -> float | None:
        """Write the status if it has changed; returns the seconds until it changes by itself."""
        status = status_of(view, processed=processed)
        patch = status_patch(view.daemon_set, status)
        if patch is not None:
            changed = await self._status.patch_status(SETS, view.daemon_set, patch)
            self._consistency.wrote_at(key_of(view.daemon_set), SETS.kind, changed)
        return seconds_until_next_available(view, status)


def _where(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
