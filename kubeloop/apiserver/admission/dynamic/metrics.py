"""Metrics of policies, webhooks and match conditions, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from kubeloop.apiserver.admission.dynamic.expressions import MatchResult
from kubeloop.apiserver.measures import CounterFamily, HistogramFamily

_HIGHEST_CODE: Final = 600
_OF_CALLS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25)
_OF_CONDITIONS: Final = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
_OF_CHECKS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
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


class WebhookMetrics:
    """Metrics of webhook calls; `kind` is "admit" for mutating ones, "validating" for others."""

    def __init__(self) -> None:
        self._requests = CounterFamily(f"{_WEBHOOK}request_total", "name", "type", "operation", "code", "rejected")
        of_rejections = ("name", "type", "operation", "error_type", "rejection_code")
        self._rejections = CounterFamily(f"{_WEBHOOK}rejection_count", *of_rejections)
        self._ignored = CounterFamily(f"{_WEBHOOK}fail_open_count", "name", "type")
        of_calls = ("name", "type", "operation", "rejected")
        self._durations = HistogramFamily(f"{_WEBHOOK}admission_duration_seconds", _OF_CALLS, *of_calls)

    def called(self, name: str, kind: str, operation: str, code: int, seconds: float, *, rejected: bool) -> None:
        """Count a call and observe its duration in seconds."""
        told = "true" if rejected else "false"
        self._requests.add(name, kind, operation, str(min(code, _HIGHEST_CODE)), told)
        self._durations.observe(seconds, name, kind, operation, told)

    def rejected(self, name: str, kind: str, operation: str, error_type: str, code: int) -> None:
        """Count a rejection by error type and status code."""
        self._rejections.add(name, kind, operation, error_type, str(min(code, _HIGHEST_CODE)))

    def ignored(self, name: str, kind: str) -> None:
        """Count a failed call that the failure policy ignores (fail open)."""
        self._ignored.add(name, kind)

    def lines(self) -> Iterator[str]:
        """Yield the metrics in Prometheus text format."""
        families = (self._requests, self._rejections, self._ignored, self._durations)
        return chain.from_iterable(one.lines() for one in families)


class ConditionMetrics:
    """Metrics of match conditions."""

    def __init__(self) -> None:
        self._errors = CounterFamily(f"{_CONDITION}evaluation_errors_total", *_ABOUT)
        self._exclusions = CounterFamily(f"{_CONDITION}exclusions_total", *_ABOUT)
        self._durations = HistogramFamily(f"{_CONDITION}evaluation_seconds", _OF_CONDITIONS, *_ABOUT)

    def evaluated(self, about: MatchConditionLabels, decision: MatchResult, seconds: float) -> None:
        """Observe an evaluation: duration, errors, and exclusions of webhooks."""
        self._durations.observe(seconds, *about)
        if decision.problems:
            self._errors.add(*about, amount=decision.problems)
        if not decision.met and not decision.failure and about.kind == "webhook":
            self._exclusions.add(*about)

    def lines(self) -> Iterator[str]:
        """Yield the metrics in Prometheus text format."""
        return chain(self._errors.lines(), self._exclusions.lines(), self._durations.lines())


class PolicyMetrics:
    """Metrics of validating and mutating policies."""

    def __init__(self) -> None:
        labels = ("policy", "policy_binding", "error_type")
        of_validations, of_mutations = "apiserver_validating_admission_policy_", "apiserver_mutating_admission_policy_"
        self._validations = CounterFamily(f"{of_validations}check_total", *labels, "enforcement_action")
        self._validation_times = HistogramFamily(
            f"{of_validations}check_duration_seconds", _OF_CHECKS, *labels, "enforcement_action"
        )
        self._mutations = CounterFamily(f"{of_mutations}check_total", *labels)
        self._mutation_times = HistogramFamily(f"{of_mutations}check_duration_seconds", _OF_CHECKS, *labels)

    def validated(self, policy: str, binding: str, error_type: str, action: str, seconds: float) -> None:
        """Count and time an evaluation of a validating policy."""
        self._validations.add(policy, binding, error_type, action)
        self._validation_times.observe(seconds, policy, binding, error_type, action)

    def mutated(self, policy: str, binding: str, error_type: str, seconds: float) -> None:
        """Count and time an evaluation of a mutating policy."""
        self._mutations.add(policy, binding, error_type)
        self._mutation_times.observe(seconds, policy, binding, error_type)

    def lines(self) -> Iterator[str]:
        """Yield the metrics in Prometheus text format."""
        families = (self._validations, self._validation_times, self._mutations, self._mutation_times)
        return chain.from_iterable(one.lines() for one in families)


class AdmissionMetrics:
    """All metrics of dynamic admission of one server."""

    def __init__(self) -> None:
        self.webhooks = WebhookMetrics()
        self.conditions = ConditionMetrics()
        self.policies = PolicyMetrics()

    def lines(self) -> Iterator[str]:
        """Yield the metrics in Prometheus text format."""
        return chain(self.webhooks.lines(), self.conditions.lines(), self.policies.lines())
