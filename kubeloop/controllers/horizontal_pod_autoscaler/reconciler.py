# SPDX-License-Identifier: Apache-2.0
"""Syncs one autoscaler: reads the target's scale and the metrics, decides, resizes, and reports."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.autoscaling_v1 import Scale
from kubeloop.api.generated.autoscaling_v2 import MetricSpec, MetricStatus
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.selectors import LabelSelector, SelectorError, parse_label_selector
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.horizontal_pod_autoscaler.behavior import (
    ReasonAndMessage,
    ReplicaBounds,
    ReplicaChange,
    ScaleHistory,
    normalize_desired_replicas,
    normalize_desired_replicas_with_behaviors,
    rules_of,
)
from kubeloop.controllers.horizontal_pod_autoscaler.metrics_client import MetricsClient
from kubeloop.controllers.horizontal_pod_autoscaler.monitor import HpaMonitor, action_of
from kubeloop.controllers.horizontal_pod_autoscaler.proposals import (
    MetricError,
    MetricProposal,
    ProposalInputs,
    Proposer,
    largest_proposal,
)
from kubeloop.controllers.horizontal_pod_autoscaler.scale_target import (
    InvalidReference,
    ScaleError,
    ScaleTarget,
    find_target,
)
from kubeloop.controllers.horizontal_pod_autoscaler.settings import (
    SCALED_TO_ZERO,
    has_object_or_external_metrics,
    may_scale_from_zero,
    min_replicas_of,
    settings_of,
    tolerances_of,
)
from kubeloop.controllers.horizontal_pod_autoscaler.status_draft import ScalingUnavailable, StatusDraft
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of

COMPONENT: Final = "horizontal-pod-autoscaler"  # source component of events
ABLE: Final = "AbleToScale"
ACTIVE: Final = "ScalingActive"
LIMITED: Final = "ScalingLimited"
DISABLED: Final = "scaling is disabled since the replica count of the target is zero"
BELOW_MIN_REPLICAS: Final = "Current number of replicas below Spec.MinReplicas"

logger = logging.getLogger(__name__)
replace = msgspec.structs.replace


class ScaleDecision(NamedTuple):
    """Size with its reason; metrics are None if none were read."""

    replicas: int
    reason: str = ""
    metrics: tuple[MetricStatus, ...] | None = None


class Reconciler:
    """Reconciles autoscalers by key; the recorded history starts afresh with the process."""

    def __init__(self, context: ControllerContext, autoscalers: Informer, pods: Informer) -> None:
        self._client = context.client
        self._recorder = context.recorder.with_component(COMPONENT)
        self._clock = context.clock
        self._autoscalers = autoscalers
        self._pods = pods
        self._settings = settings = settings_of(context)
        self._proposer = Proposer(MetricsClient(context.client), settings.startup_delays)
        self._instruments = HpaMonitor(context.telemetry.registry, lambda: len(autoscalers))
        self._memories: dict[ObjectKey, ScaleHistory] = {}
        self._selectors: dict[str, dict[ObjectKey, LabelSelector]] = {}  # by namespace

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync one autoscaler and requeue it after the period."""
        stored = self._autoscalers.get(*key)
        if stored is None:
            self._forget(key)
            return None
        began = self._clock.monotonic()
        draft = StatusDraft(stored, self._clock.now())
        try:
            await self._scale(draft, key)
        except ScalingUnavailable as failure:
            draft.error = failure.error
            logger.info("%s: %s", key, failure)  # reported on the object, and retried after the period
        await self._save(draft)
        self._instruments.observe_reconciliation(draft.action, draft.error, self._clock.monotonic() - began)
        return Result(requeue_after=self._settings.period)

    def _forget(self, key: ObjectKey) -> None:
        self._memories.pop(key, None)
        self._selectors.get(key.namespace, {}).pop(key, None)
        self._instruments.forget(key)

    async def _scale(self, draft: StatusDraft, key: ObjectKey) -> None:
        spec = draft.stored.spec
        try:
            target = await find_target(self._client, key.namespace, spec.scale_target_ref)
        except ScaleError as error:
            self._warn(draft, "FailedGetScale", str(error))
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            draft.set_condition(ABLE, False, "FailedGetScale", message)
            fault = "spec" if isinstance(error, InvalidReference) else "internal"
            raise ScalingUnavailable(str(error), fault) from error
        draft.set_condition(
            ABLE, True, "SucceededGetScale", "the HPA controller was able to get the target's current scale"
        )
        current = target.scale.spec.replicas
        memory = self._memories.setdefault(key, ScaleHistory())
        memory.record_initial(current, draft.now)
        decision = await self._decide(draft, target, memory)
        if decision.replicas != current:
            await self._resize(draft, target, decision, memory)
        draft.set_status(current, decision.replicas, decision.metrics, decision.replicas != current)
        self._instruments.observe_desired_replicas(key, decision.replicas)

    # Decide

    async def _decide(self, draft: StatusDraft, target: ScaleTarget, memory: ScaleHistory) -> ScaleDecision:
        spec, current = draft.stored.spec, target.scale.spec.replicas
        least = min_replicas_of(draft.stored)
        if current == 0 and not (self._settings.allows_scale_to_zero and may_scale_from_zero(draft.stored)):
            draft.set_condition(ACTIVE, False, "ScalingDisabled", DISABLED)
            if not self._settings.allows_scale_to_zero:
                draft.remove_condition(SCALED_TO_ZERO)
            return ScaleDecision(0)
        if current > spec.max_replicas:
            return ScaleDecision(spec.max_replicas, "Current number of replicas above Spec.MaxReplicas")
        if 0 < current < least:
            return ScaleDecision(least, BELOW_MIN_REPLICAS)
        proposed, statuses = await self._proposed(draft, target)
        reason = ""
        if proposed.replicas != current:
            is_more = proposed.replicas > current
            reason = f"{proposed.name} above target" if is_more else "All metrics below target"
        size = self._normalized(draft, current, proposed.replicas, memory)
        if current == 0 and size < least:
            return ScaleDecision(least, reason or BELOW_MIN_REPLICAS, statuses)
        return ScaleDecision(size, reason, statuses)

    def _normalized(self, draft: StatusDraft, current: int, desired: int, memory: ScaleHistory) -> int:
        spec, window = draft.stored.spec, self._settings.down_window
        bounds = ReplicaBounds(min_replicas_of(draft.stored), spec.max_replicas)
        if spec.behavior is None:
            found = normalize_desired_replicas(ReplicaChange(current, desired), bounds, memory, window, draft.now)
        else:
            rules = rules_of(spec.behavior, window)
            found = normalize_desired_replicas_with_behaviors(
                ReplicaChange(current, desired), bounds, memory, rules, draft.now
            )
        draft.set_condition(ABLE, True, *found.able)
        draft.set_condition(LIMITED, found.is_limited, *found.limit)
        return found.replicas

    async def _proposed(
        self, draft: StatusDraft, target: ScaleTarget
    ) -> tuple[MetricProposal, tuple[MetricStatus, ...]]:
        """Return the largest proposal; failed metrics are skipped, unless that would reduce the size."""
        scale, metrics = target.scale, draft.stored.spec.metrics
        situation = self._situation(draft, scale)
        found: list[MetricProposal] = []
        failures: list[MetricError] = []
        statuses = []
        for one in metrics:
            try:
                proposed = await self._measured(draft, one, situation)
            except MetricError as failure:
                self._warn(draft, failure.reason, failure.cause)
                failures.append(failure)
                statuses.append(MetricStatus())
            else:
                found.append(proposed)
                statuses.append(proposed.status)
        if failures:
            draft.error = failures[0].fault
        best = largest_proposal(found)
        if best is None or (failures and best.replicas < scale.spec.replicas):
            self._give_up(draft, scale, failures, tuple(statuses))
            raise ScalingUnavailable("no valid metrics", draft.error)
        message = f"the HPA was able to successfully calculate a replica count from {best.name}"
        draft.set_condition(ACTIVE, True, "ValidMetricFound", message)
        return best, tuple(statuses)

    async def _measured(self, draft: StatusDraft, metric: MetricSpec, situation: ProposalInputs) -> MetricProposal:
        began, action, error = self._clock.monotonic(), "none", "none"
        try:
            proposed = await self._proposer.propose(metric, situation)
            action = action_of(draft.stored.status.current_replicas, proposed.replicas)
        except MetricError as failure:
            error = failure.fault
            raise
        finally:
            self._instruments.observe_metric_computation(metric.type, action, error, self._clock.monotonic() - began)
        return proposed

    def _give_up(
        self, draft: StatusDraft, scale: Scale, failures: Sequence[MetricError], statuses: tuple[MetricStatus, ...]
    ) -> None:
        if failures:
            first = failures[0]
            message = f"the HPA was unable to compute the replica count: {first.cause}"
            draft.set_condition(ACTIVE, False, first.reason, message)
            count = f"{len(failures)} invalid out of {len(statuses)}"
            told = f"invalid metrics ({count}), first error is: {first}"
            self._warn(draft, "FailedComputeMetricsReplicas", told)
        draft.set_status(scale.spec.replicas, draft.status.desired_replicas, statuses, False)

    # Pods of the target

    def _situation(self, draft: StatusDraft, scale: Scale) -> ProposalInputs:
        namespace = draft.stored.metadata.namespace
        selector = self._selector(draft, scale)
        pods = [one for one in self._pods.list(namespace) if selector.matches(one.metadata.labels)]
        self._check_ambiguous_selector(draft, scale, pods)
        tolerances = tolerances_of(draft.stored, self._settings.tolerance)
        wanted, present = scale.spec.replicas, scale.status.replicas
        return ProposalInputs(namespace, wanted, present, selector, pods, tolerances, draft.now)

    def _selector(self, draft: StatusDraft, scale: Scale) -> LabelSelector:
        text, key = scale.status.selector, key_of(draft.stored)
        if not text:
            missing = "the HPA target's scale is missing a selector"
            raise self._unusable(
                draft, scale, ("SelectorRequired", "selector is required"), ("InvalidSelector", missing)
            )
        try:
            selector = parse_label_selector(text)
        except SelectorError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            told = ("InvalidSelector", message)
            raise self._unusable(draft, scale, told, told) from error
        self._selectors.setdefault(key.namespace, {})[key] = selector
        return selector

    def _check_ambiguous_selector(self, draft: StatusDraft, scale: Scale, pods: Sequence[Pod]) -> None:
        """Refuse pods that another autoscaler selects too, since both would scale without end."""
        own = key_of(draft.stored)
        others = self._selectors.get(own.namespace, {})
        labels = {tuple(sorted(one.metadata.labels.items())): one.metadata.labels for one in pods}
        for key, selector in others.items():
            if key != own and any(map(selector.matches, labels.values())):
                both = " ".join(f"{{{one.name} {one.namespace}}}" for one in sorted((own, key)))
                text = scale.status.selector
                told = (
                    "AmbiguousSelector",
                    f"pods by selector {text} are controlled by more than one HPA (e.g. [{both}])",
                )
                raise self._unusable(draft, scale, told, told)

    def _unusable(
        self, draft: StatusDraft, scale: Scale, event: ReasonAndMessage, condition: ReasonAndMessage
    ) -> ScalingUnavailable:
        self._warn(draft, *event)
        draft.set_condition(ACTIVE, False, *condition)
        draft.set_status(scale.spec.replicas, draft.status.desired_replicas, None, False)
        self._warn(draft, "FailedComputeMetricsReplicas", event[1])
        return ScalingUnavailable(event[1])

    # Act

    async def _resize(
        self, draft: StatusDraft, target: ScaleTarget, decision: ScaleDecision, memory: ScaleHistory
    ) -> None:
        before, after = target.scale.spec.replicas, decision.replicas
        told = f"New size: {after}; reason: {decision.reason}"
        try:
            await target.resize(after)
        except ScaleError as error:
            self._warn(draft, "FailedRescale", f"{told}; error: {error}")
            message = f"the HPA controller was unable to update the target scale: {error}"
            draft.set_condition(ABLE, False, "FailedUpdateScale", message)
            draft.set_status(before, draft.status.desired_replicas, decision.metrics, False)
            raise ScalingUnavailable(str(error)) from error
        draft.action = action_of(before, after)
        message = f"the HPA controller was able to update the target scale to {after}"
        draft.set_condition(ABLE, True, "SucceededRescale", message)
        self._recorder.event(draft.stored, "Normal", "SuccessfulRescale", told)
        if draft.stored.spec.behavior is not None:
            memory.record_scale_event(before, after, draft.stored.spec.behavior, draft.now)
        self._set_scaled_to_zero(draft, after)

    def _set_scaled_to_zero(self, draft: StatusDraft, after: int) -> None:
        """Set the condition that records if the controller itself scaled the target to zero."""
        if not self._settings.allows_scale_to_zero:
            draft.remove_condition(SCALED_TO_ZERO)
        elif after == 0 and min_replicas_of(draft.stored) == 0 and has_object_or_external_metrics(draft.stored):
            draft.set_condition(SCALED_TO_ZERO, True, "ScaledToZero", "the HPA controller scaled the workload to zero")
        else:
            message = "the HPA controller did not scale the workload to zero"
            draft.set_condition(SCALED_TO_ZERO, False, "NotScaledToZero", message)

    # Report

    async def _save(self, draft: StatusDraft) -> None:
        if draft.status == draft.stored.status:
            return
        try:
            await self._client.update(replace(draft.stored, status=draft.status), subresource="status")
        except ApiError as error:
            self._warn(draft, "FailedUpdateStatus", str(error))
            raise

    def _warn(self, draft: StatusDraft, reason: str, message: str) -> None:
        self._recorder.event(draft.stored, "Warning", reason, message)
