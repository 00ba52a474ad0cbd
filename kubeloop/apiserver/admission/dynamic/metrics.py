# SPDX-License-Identifier: Apache-2.0
"""Metrics of policies, webhooks and match conditions, under upstream's names."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.apiserver.admission.dynamic.expressions import MatchResult
from kubeloop.metrics import MetricRegistry

_HIGHEST_CODE: Final = 600
_OF_CALLS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25)
_OF_CONDITIONS: Final = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
_OF_CHECKS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
# Default bounds of histograms.
CEL_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WEBHOOK: Final = "apiserver_admission_webhook_"
_CONDITION: Final = "apiserver_admission_match_condition_"
_ABOUT: Final = ("name", "kind", "type", "operation")


# Error types of expressions, as label values.
NO_ERROR, COMPILE, INVALID, OUT_OF_BUDGET = "no_error", "compile_error", "invalid_error", "out_of_budget"


def error_type_of(problem: str) -> str:
    """Return the error_type label of an expression's error message."""
    return COMPILE if problem.startswith("compilation error") else INVALID


class MatchConditionLabels(NamedTuple):
    """Labels of match conditions: name and kind of the owner, admission type and operation."""

    name: str
    kind: str
    type: str
    operation: str


class WebhookCallLabels(NamedTuple):
    """Labels of a webhook call; `kind` is "admit" for mutating webhooks, "validating" for others."""

    name: str
    kind: str
    operation: str


class WebhookMetrics:
    """Metrics of webhook calls."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._requests = registry.counter(f"{_WEBHOOK}request_total", "name", "type", "operation", "code", "rejected")
        of_rejections = ("name", "type", "operation", "error_type", "rejection_code")
        self._rejections = registry.counter(f"{_WEBHOOK}rejection_count", *of_rejections)
        self._ignored = registry.counter(f"{_WEBHOOK}fail_open_count", "name", "type")
        of_calls = ("name", "type", "operation", "rejected")
        self._durations = registry.histogram(f"{_WEBHOOK}admission_duration_seconds", *of_calls, bounds=_OF_CALLS)

    def observe_call(self, call: WebhookCallLabels, code: int, seconds: float, *, rejected: bool) -> None:
        """Count a call and observe its duration in seconds."""
        told = "true" if rejected else "false"
        self._requests.with_labels(*call, str(min(code, _HIGHEST_CODE)), told).value += 1
        self._durations.with_labels(*call, told).observe(seconds)

    def count_rejection(self, call: WebhookCallLabels, error_type: str, code: int) -> None:
        """Count a rejection by error type and status code."""
        self._rejections.with_labels(*call, error_type, str(min(code, _HIGHEST_CODE))).value += 1

    def count_fail_open(self, name: str, kind: str) -> None:
        """Count a failed call that the failure policy ignores (fail open)."""
        self._ignored.with_labels(name, kind).value += 1


class ConditionMetrics:
    """Metrics of match conditions."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._errors = registry.counter(f"{_CONDITION}evaluation_errors_total", *_ABOUT)
        self._exclusions = registry.counter(f"{_CONDITION}exclusions_total", *_ABOUT)
        self._durations = registry.histogram(f"{_CONDITION}evaluation_seconds", *_ABOUT, bounds=_OF_CONDITIONS)

    def observe(self, about: MatchConditionLabels, decision: MatchResult, seconds: float) -> None:
        """Observe an evaluation: duration, errors, and exclusions of webhooks."""
        self._durations.with_labels(*about).observe(seconds)
        if decision.error_count:
            self._errors.with_labels(*about).value += decision.error_count
        if not decision.met and not decision.failure and about.kind == "webhook":
            self._exclusions.with_labels(*about).value += 1


class PolicyMetrics:
    """Metrics of validating and mutating policies."""

    def __init__(self, registry: MetricRegistry) -> None:
        labels = ("policy", "policy_binding", "error_type")
        of_validations, of_mutations = "apiserver_validating_admission_policy_", "apiserver_mutating_admission_policy_"
        self._validations = registry.counter(f"{of_validations}check_total", *labels, "enforcement_action")
        self._validation_times = registry.histogram(
            f"{of_validations}check_duration_seconds", *labels, "enforcement_action", bounds=_OF_CHECKS
        )
        self._mutations = registry.counter(f"{of_mutations}check_total", *labels)
        self._mutation_times = registry.histogram(f"{of_mutations}check_duration_seconds", *labels, bounds=_OF_CHECKS)

    def observe_validation(self, policy: str, binding: str, error_type: str, action: str, seconds: float) -> None:
        """Count and time an evaluation of a validating policy."""
        self._validations.with_labels(policy, binding, error_type, action).value += 1
        self._validation_times.with_labels(policy, binding, error_type, action).observe(seconds)

    def observe_mutation(self, policy: str, binding: str, error_type: str, seconds: float) -> None:
        """Count and time an evaluation of a mutating policy."""
        self._mutations.with_labels(policy, binding, error_type).value += 1
        self._mutation_times.with_labels(policy, binding, error_type).observe(seconds)


class AdmissionMetrics:
    """All metrics of dynamic admission of one server."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.webhooks = WebhookMetrics(registry)
        self.conditions = ConditionMetrics(registry)
        self.policies = PolicyMetrics(registry)
        cel = "apiserver_cel_"
        self.cel_compilation = registry.histogram(f"{cel}compilation_duration_seconds", bounds=CEL_BOUNDS).with_labels()
        self.cel_evaluation = registry.histogram(f"{cel}evaluation_duration_seconds", bounds=CEL_BOUNDS).with_labels()
