# SPDX-License-Identifier: Apache-2.0
"""Computes a budget's status: healthy pods, required pods, and allowed disruptions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kubeloop.api.meta.conditions import find_condition, set_condition
from kubeloop.api.pods.pod import is_ready
from kubeloop.api.scalars.intstr import scaled_value
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time

DELETION_TIMEOUT: Final = timedelta(minutes=2)  # limit from an allowed eviction to the pod's deletion
ALLOWED: Final = "DisruptionAllowed"


@dataclass(frozen=True, slots=True)
class BudgetCounts:
    """Counts of a budget."""

    healthy: int
    desired: int
    expected: int
    disrupted: Mapping[str, Time]  # pods whose eviction was allowed and that still exist

    @property
    def allowed(self) -> int:
        """Number of allowed disruptions; 0 while no pods are expected, since new pods may not be counted yet."""
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


@dataclass(frozen=True, slots=True)
class AllowedEvictions:
    """State of allowed evictions."""

    pending: Mapping[str, Time]
    failed: tuple[Pod, ...]  # should be deleted by now
    recheck_after: float | None  # seconds until the next one expires


def needs_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Return True if the budget depends on the expected number of pods."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def desired_healthy(spec: PodDisruptionBudgetSpec, expected: int) -> int:
    """Return the number of pods that must stay healthy; raises IntOrStringError for an invalid percentage."""
    if spec.max_unavailable is not None:
        return max(0, expected - scaled_value(spec.max_unavailable, expected, True))
    return 0 if spec.min_available is None else scaled_value(spec.min_available, expected, True)


def evictions_of(budget: PodDisruptionBudget, pods: Iterable[Pod], now: datetime) -> AllowedEvictions:
    """Find the pods whose eviction was allowed and is pending or has failed."""
    announced = budget.status.disrupted_pods
    pending: dict[str, Time] = {}
    failed: list[Pod] = []
    ends: list[datetime] = []
    for pod in pods if announced else ():
        since = announced.get(pod.metadata.name)
        if since is None or pod.metadata.deletion_timestamp is not None:
            continue
        end = parse_time(since) + DELETION_TIMEOUT
        if end <= now:
            failed.append(pod)
        else:
            pending[pod.metadata.name] = since
            ends.append(end)
    return AllowedEvictions(pending, tuple(failed), (min(ends) - now).total_seconds() if ends else None)


def count_healthy(pods: Sequence[Pod], leaving: Mapping[str, Time]) -> int:
    """Return the number of ready pods that are not being deleted or evicted."""
    return sum(
        pod.metadata.deletion_timestamp is None and pod.metadata.name not in leaving and is_ready(pod) for pod in pods
    )


def status_patch(budget: PodDisruptionBudget, verdict: BudgetCounts, now: datetime) -> dict[str, Any] | None:
    """Build a strategic merge patch for the evaluated version; None if the status is up to date."""
    if _is_current(budget, verdict):
        return None
    meta, before = budget.metadata, budget.status
    reason, status = ("SufficientPods", "True") if verdict.allowed > 0 else ("InsufficientPods", "False")
    condition = Condition(type=ALLOWED, status=status, reason=reason, observed_generation=meta.generation)
    gone = {name: None for name in before.disrupted_pods if name not in verdict.disrupted}
    return _patch(
        budget,
        {
            "currentHealthy": verdict.healthy,
            "desiredHealthy": verdict.desired,
            "expectedPods": verdict.expected,
            "disruptionsAllowed": verdict.allowed,
            "disruptedPods": {**verdict.disrupted, **gone},
            "observedGeneration": meta.generation,
            "conditions": [_condition_after(before, condition, now)],
        },
    )


def failure_patch(budget: PodDisruptionBudget, why: str, now: datetime) -> dict[str, Any] | None:
    """Build a patch that allows no disruptions after a failure; None if it is already reported."""
    before = budget.status
    failed = Condition(
        type=ALLOWED,
        status="False",
        reason="SyncFailed",
        message=why,
        observed_generation=before.observed_generation,
    )
    condition = _condition_after(before, failed, now)
    told = find_condition(before.conditions, ALLOWED)
    if before.disruptions_allowed == 0 and told is not None and codec.to_plain(told) == condition:
        return None
    return _patch(budget, {"disruptionsAllowed": 0, "conditions": [condition]})


def _condition_after(status: PodDisruptionBudgetStatus, condition: Condition, now: datetime) -> Any:
    conditions = set_condition(status.conditions, condition, Time(format_time(now)))
    return codec.to_plain(find_condition(conditions, ALLOWED))


def _patch(budget: PodDisruptionBudget, status: dict[str, Any]) -> dict[str, Any]:
    """Build the patch with its version as precondition, since evictions write the status too."""
    meta = budget.metadata
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}


def _is_current(budget: PodDisruptionBudget, verdict: BudgetCounts) -> bool:
    status = budget.status
    told = find_condition(status.conditions, ALLOWED)
    if told is None or status.observed_generation != budget.metadata.generation:
        return False
    reason = ("True", "SufficientPods") if verdict.allowed > 0 else ("False", "InsufficientPods")
    said = BudgetCounts(
        status.current_healthy, status.desired_healthy, status.expected_pods, dict(status.disrupted_pods)
    )
    return said == verdict and status.disruptions_allowed == verdict.allowed and (told.status, told.reason) == reason
