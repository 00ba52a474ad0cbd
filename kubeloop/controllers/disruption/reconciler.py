# SPDX-License-Identifier: Apache-2.0
"""Syncs one budget, or resets one pod's announced eviction."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.errors import Conflict
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.intstr import IntOrStringError
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.api.selectors.objects import go_debug_string
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.disruption import stale_targets
from kubeloop.controllers.disruption.budget import (
    BudgetCounts,
    count_healthy,
    desired_healthy,
    evictions_of,
    failure_patch,
    needs_scale,
    status_patch,
)
from kubeloop.controllers.disruption.event_handlers import DisruptionKey
from kubeloop.controllers.disruption.scales import ExpectedPods, ScaleFinder, ScaleUnknownError
from kubeloop.runtime.controller import Result
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)
# A retry would not help: a change that fixes the cause enqueues the budget.
_LASTING = (ScaleUnknownError, IntOrStringError, SelectorError)


class Reconciler:
    """Reconciles budgets and pods by key."""

    def __init__(
        self,
        context: ControllerContext,
        budgets: Informer,
        pods: Informer,
        scales: ScaleFinder,
        recorder: EventRecorder,
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._budgets = budgets
        self._pods = pods
        self._scales = scales
        self._recorder = recorder
        self._status = PatchOrUpdate(context.client)

    async def reconcile(self, concern: DisruptionKey) -> Result | None:
        """Sync one budget or one pod; a failed budget allows no disruptions."""
        if concern.kind == "pod":
            return await self._reset_stale_target(self._pods.get(concern.namespace, concern.name))
        budget = self._budgets.get(concern.namespace, concern.name)
        if budget is None:
            return None
        try:
            return await self._sync_budget(budget)
        except Conflict:
            raise  # a pod was evicted meanwhile: the budget is fine
        except Exception as error:
            await self._fail(budget, error)
            if isinstance(error, _LASTING):
                return None
            raise

    # Budgets

    async def _sync_budget(self, budget: PodDisruptionBudget) -> Result | None:
        pods = self._pods_of(budget)
        expected = await self._expected(budget, pods)
        now = self._clock.now()
        evictions = evictions_of(budget, pods, now)
        self._tell(budget, expected, evictions.failed)
        verdict = BudgetCounts(
            healthy=count_healthy(pods, evictions.pending),
            desired=self._desired(budget, expected.pods),
            expected=expected.pods,
            disrupted=evictions.pending,
        )
        patch = status_patch(budget, verdict, now)
        if patch is not None:
            await self._status.patch_status(self._budgets.resource, budget, patch)
        return None if evictions.recheck_after is None else Result(requeue_after=evictions.recheck_after)

    def _pods_of(self, budget: PodDisruptionBudget) -> Sequence[Pod]:
        try:
            matches = label_selector_as_selector(budget.spec.selector).matches
        except SelectorError as error:
            self._recorder.event(budget, "Warning", "NoPods", f"Failed to get pods: {error}")
            raise
        pods = [one for one in self._pods.list(budget.metadata.namespace) if matches(one.metadata.labels)]
        if not pods:
            self._recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        return pods

    async def _expected(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> ExpectedPods:
        if not needs_scale(budget.spec):
            return ExpectedPods(len(pods) if budget.spec.min_available is not None else 0, ())
        try:
            return await self._scales.expected_pods(pods)
        except Exception as error:
            self._complain(budget, error)
            raise

    def _desired(self, budget: PodDisruptionBudget, expected: int) -> int:
        try:
            return desired_healthy(budget.spec, expected)
        except IntOrStringError as error:
            self._complain(budget, error)
            raise

    def _complain(self, budget: PodDisruptionBudget, error: Exception) -> None:
        said = f"Failed to calculate the number of expected pods: {error}"
        self._recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", said)

    def _tell(self, budget: PodDisruptionBudget, expected: ExpectedPods, kept: Sequence[Pod]) -> None:
        if expected.unmanaged:
            said = _UNMANAGED.format(go_debug_string(budget.spec.selector))
            self._recorder.event(budget, "Warning", "UnmanagedPods", said)
        namespace = budget.metadata.namespace
        for pod in kept:  # upstream's text repeats the namespace and omits the name
            said = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            self._recorder.event(pod, "Warning", "NotDeleted", said)

    async def _fail(self, budget: PodDisruptionBudget, error: Exception) -> None:
        """Allow no disruptions while the state is unknown."""
        patch = failure_patch(budget, str(error), self._clock.now())
        if patch is not None:
            await self._status.patch_status(self._budgets.resource, budget, patch)

    # Pods

    async def _reset_stale_target(self, pod: Pod | None) -> Result | None:
        if pod is None or not stale_targets.is_target(pod):
            return None
        now = self._clock.now()
        left = stale_targets.seconds_until_stale(pod, now)
        if left > 0:
            return Result(requeue_after=left)
        meta, patch = pod.metadata, stale_targets.reset_patch(pod, now)
        await self._client.patch(Pod, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH, subresource="status")
        return None
