# SPDX-License-Identifier: Apache-2.0
"""Policy of evictions: evaluates PodDisruptionBudgets. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.errors import StatusCause
from kubeloop.api.generated.core_v1 import PodCondition
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.meta import conditions
from kubeloop.api.scalars.wire import Time
from kubeloop.api.selectors import SelectorError, label_selector_as_selector

# Evictions that the disruption controller has not observed yet; above this many, further ones wait.
_MAX_UNCONFIRMED = 2000
_RETRY_SECONDS = 10
_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."
_FINISHED = ("Succeeded", "Failed")


def needs_no_budget(pod: Any) -> bool:
    """Return True if a pod can be evicted regardless of budgets: it is pending, finished or being deleted."""
    return pod.status.phase in (*_FINISHED, "Pending") or pod.metadata.deletion_timestamp is not None


def may_become_guarded(pod: Any) -> bool:
    """Return True if a pod that needs no budget now may need one later."""
    return pod.status.phase not in _FINISHED and pod.metadata.deletion_timestamp is None


def budgets_of(pod: Any, budgets: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    """Return the budgets whose selector matches a pod; an invalid selector matches nothing."""
    return [budget for budget in budgets if _selects(budget, pod.metadata.labels)]


def _selects(budget: PodDisruptionBudget, labels: Any) -> bool:
    try:
        return label_selector_as_selector(budget.spec.selector).matches(labels)
    except SelectorError:
        return False


def can_evict_unhealthy(pod: Any, budget: PodDisruptionBudget) -> bool:
    """Return True if the unhealthy-pod eviction policy lets the pod go without using up a disruption."""
    if conditions.is_true(pod.status.conditions, "Ready"):
        return False
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def decrement_disruptions_allowed(budget: PodDisruptionBudget, pod_name: str, now: Time) -> None:
    """Count one disruption in the budget's status, or raise. `budget` is the caller's copy, changed in place."""
    _refuse_unless_allowed(budget)
    status = budget.status
    left = status.disruptions_allowed - 1
    force_setattr(status, "disruptions_allowed", left)
    force_setattr(status, "disrupted_pods", {**status.disrupted_pods, pod_name: now})
    if left == 0:
        exhausted = Condition(
            type="DisruptionAllowed",
            status="False",
            reason="InsufficientPods",
            observed_generation=status.observed_generation,
        )
        force_setattr(status, "conditions", conditions.set_condition(status.conditions, exhausted, now))


def _refuse_unless_allowed(budget: PodDisruptionBudget) -> None:
    name, status = budget.metadata.name, budget.status
    if status.observed_generation < budget.metadata.generation:
        raise still_processing_error(name)
    if status.disruptions_allowed < 0:
        negative = "pdb disruptions allowed is negative"
        raise _forbidden(name, negative, negative)
    if len(status.disrupted_pods) > _MAX_UNCONFIRMED:
        raise _forbidden(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        )
    if status.disruptions_allowed == 0:
        raise errors.too_many_requests(_REFUSAL, causes=[_cause(_why_exhausted(budget))])


def still_processing_error(name: str) -> errors.TooManyRequests:
    """Return the error for a budget whose status does not reflect its current spec."""
    told = f"The disruption budget {name} is still being processed by the server."
    return errors.too_many_requests(_REFUSAL, _RETRY_SECONDS, [_cause(told)])


def _why_exhausted(budget: PodDisruptionBudget) -> str:
    subject, status = f"The disruption budget {budget.metadata.name}", budget.status
    condition = conditions.find_condition(status.conditions, "DisruptionAllowed")
    told = condition is not None and condition.status == "False" and bool(condition.message)
    # After a failed sync the counts are meaningless, so this is checked first.
    if told and condition is not None and condition.reason == "SyncFailed":
        return f"{subject} does not allow evicting pods currently because it failed sync: {condition.message}"
    if status.current_healthy <= status.desired_healthy:
        return f"{subject} needs {status.desired_healthy} healthy pods and has {status.current_healthy} currently"
    if told and condition is not None:
        return f"{subject} does not allow evicting pods currently ({condition.reason}): {condition.message}"
    return f"{subject} does not allow evicting pods currently"


def _forbidden(name: str, why: str, cause: str) -> errors.ApiError:
    told = f"The disruption budget {name} does not allow evicting pods currently: {cause}"
    return errors.forbidden("policy", "poddisruptionbudget", name, why, [_cause(told)])


def _cause(message: str) -> StatusCause:
    return StatusCause("DisruptionBudget", message)


def with_disruption_target(pod: Any, now: Time) -> Any:
    """Return the pod's status with the DisruptionTarget condition of the eviction API."""
    target = PodCondition(
        type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI", message="Eviction API: evicting"
    )
    return msgspec.structs.replace(pod.status, conditions=conditions.set_condition(pod.status.conditions, target, now))
