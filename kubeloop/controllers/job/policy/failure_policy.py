# SPDX-License-Identifier: Apache-2.0
"""Evaluates a job's `podFailurePolicy` for a failed pod: the first matching rule decides. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.generated.batch_v1 import (
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
)
from kubeloop.api.generated.core_v1 import ContainerStatus, Pod, PodCondition


class FailurePolicyResult(NamedTuple):
    """Result of the policy for one failure."""

    action: str = ""  # the rule's action, empty if none matches
    message: str = ""  # failure message of the job, if the rule fails it

    @property
    def counts_towards_limit(self) -> bool:
        """True if the failure counts towards the backoff limits."""
        return self.action != "Ignore"


_NO_RULE = FailurePolicyResult()
_ACTIONS = ("Ignore", "FailIndex", "Count", "FailJob")


def match_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> FailurePolicyResult:
    """Evaluate the policy for a failed pod."""
    for number, rule in enumerate(policy.rules or () if policy is not None else ()):
        why = _reason(rule, pod) if rule.action in _ACTIONS else ""
        if why:
            message = f"{why} matching {rule.action} rule at index {number}" if rule.action == "FailJob" else ""
            return FailurePolicyResult(rule.action, message)
    return _NO_RULE


def _reason(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return upstream's description of the match, or an empty string if the rule does not match."""
    meta = pod.metadata
    if rule.on_exit_codes is not None:
        container = _matching_container(rule.on_exit_codes, pod)
        if container is None or container.state is None or container.state.terminated is None:
            return ""
        code = container.state.terminated.exit_code
        return f"Container {container.name} for pod {meta.namespace}/{meta.name} failed with exit code {code}"
    condition = _matching_condition(rule, pod)
    return f"Pod {meta.namespace}/{meta.name} has condition {condition.type}" if condition is not None else ""


def _matching_container(wanted: PodFailurePolicyOnExitCodesRequirement, pod: Pod) -> ContainerStatus | None:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((one for one in statuses if _exit_matches(wanted, one)), None)


def _exit_matches(wanted: PodFailurePolicyOnExitCodesRequirement, container: ContainerStatus) -> bool:
    ended = container.state.terminated if container.state is not None else None
    if ended is None or ended.exit_code == 0 or wanted.container_name not in (None, container.name):
        return False
    is_listed = ended.exit_code in (wanted.values or ())
    return is_listed if wanted.operator == "In" else wanted.operator == "NotIn" and not is_listed


def _matching_condition(rule: PodFailurePolicyRule, pod: Pod) -> PodCondition | None:
    wanted = {(one.type, one.status) for one in rule.on_pod_conditions}
    return next((one for one in pod.status.conditions if (one.type, one.status) in wanted), None)
