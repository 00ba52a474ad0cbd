# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicy: evaluates validations and enforces their actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.admission.dynamic.expression_evaluator import ExpressionEvaluator
from kubeloop.apiserver.admission.dynamic.expressions import (
    POLICY_BUDGET,
    CelBudgetExceeded,
    CelCostBudget,
    Evaluation,
    EvaluationResult,
    MatchConditionsError,
    cel_variables_of,
)
from kubeloop.apiserver.admission.dynamic.match_rules import Matcher
from kubeloop.apiserver.admission.dynamic.metrics import (
    INVALID,
    NO_ERROR,
    OUT_OF_BUDGET,
    MatchConditionLabels,
    PolicyMetrics,
    error_type_of,
)
from kubeloop.apiserver.admission.dynamic.policies.invocations import (
    InvocationFailure,
    PolicyInvocation,
    invocations,
    namespace_of_subject,
)
from kubeloop.apiserver.admission.dynamic.policies.policies import AdmissionPolicy, PolicyBinding, ValidatingPolicy
from kubeloop.apiserver.admission.dynamic.versioned_attributes import VersionedAttributes
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.registry.storage import StorageRegistry

_LONGEST_MESSAGE: Final = 5 * 1024
_LONGEST_ANNOTATION: Final = 10 * 1024
_MAX_FAILURES: Final = 50
_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class Denial(NamedTuple):
    """Failed validation; `place` is its index."""

    message: str
    reason: str = "Invalid"
    validation_index: int = 0
    error_type: str = NO_ERROR


class ValidationResult(NamedTuple):
    """Result of one invocation. Failed annotations are denials regardless of the binding's actions."""

    denials: Sequence[Denial] = ()
    annotations: Sequence[tuple[str, str]] = ()
    failed_annotations: Sequence[str] = ()
    ignored_errors: Sequence[str] = ()  # error types that the failure policy ignores
    seconds: float = 0.0  # for each of its validations


class ValidatingPolicyDispatcher:
    """Dispatcher of a server's validating policies."""

    def __init__(
        self, matcher: Matcher, registry: StorageRegistry, authorizer: UnionAuthorizer, judge: ExpressionEvaluator
    ) -> None:
        self._matcher = matcher
        self._evaluator = judge
        self._registry = registry
        self._authorizer = authorizer

    async def validate(self, policies: Sequence[ValidatingPolicy], subject: VersionedAttributes) -> None:
        """Evaluate the policies for a write; raises the first denial."""
        record = _Record(subject, self._evaluator.metrics.policies)
        for found in invocations(policies, subject, self._matcher, self._registry):
            if isinstance(found, InvocationFailure):
                if not found.policy.ignores_failures:
                    record.deny(found.policy, found.binding, Denial(found.message))
                continue
            record.add(found, await self._evaluate(found, subject))
        record.finish()

    async def _evaluate(self, found: PolicyInvocation, subject: VersionedAttributes) -> ValidationResult:
        policy: ValidatingPolicy = found.policy
        namespace = namespace_of_subject(subject, self._registry)
        inputs = await cel_variables_of(subject, found.resource, namespace, self._authorizer, found.params)
        about = MatchConditionLabels(policy.name, "policy", "validate", subject.attributes.operation)
        seen = {**inputs, "namespaceObject": None}
        variables = policy.expressions.variables
        try:
            if policy.conditions and not await self._evaluator.match_conditions(
                policy.conditions, seen, about, lenient=policy.ignores_failures, variables=variables
            ):
                return ValidationResult()
        except MatchConditionsError as error:
            return (
                ValidationResult()
                if policy.ignores_failures
                else ValidationResult((Denial(str(error), error_type=INVALID),))
            )
        verdict, seconds = await self._evaluator.run_timed(_evaluate_policy, policy, inputs)
        return verdict._replace(seconds=seconds / max(1, len(policy.validations)))


def _evaluate_policy(policy: ValidatingPolicy, inputs: dict[str, Any]) -> ValidationResult:
    try:
        denials, forgiven = _denials(policy, inputs)
        annotations, failed = _annotations(policy, inputs)
    except CelBudgetExceeded as error:
        if policy.ignores_failures:
            return ValidationResult(ignored_errors=(OUT_OF_BUDGET,))
        return ValidationResult((Denial(str(error), error_type=OUT_OF_BUDGET),))
    return ValidationResult(denials, annotations, failed, forgiven)


def _denials(policy: ValidatingPolicy, inputs: dict[str, Any]) -> tuple[list[Denial], list[str]]:
    """Return the failed validations, and the types of ignored errors. Raises `CelBudgetExceeded`."""
    denials: list[Denial] = []
    forgiven: list[str] = []
    budget = CelCostBudget(POLICY_BUDGET)
    evaluation = Evaluation(inputs, budget, policy.expressions.variables)
    outcomes = [evaluation.evaluate(expression) for _, expression, _ in policy.validations]
    messages, trouble = _messages(policy, inputs, budget)
    for index, ((validation, _, _), outcome) in enumerate(zip(policy.validations, outcomes, strict=True)):
        if outcome.error or trouble:
            error_type = error_type_of(outcome.error) if outcome.error else OUT_OF_BUDGET
            if policy.ignores_failures:
                forgiven.append(error_type)
            else:
                said = outcome.error or f"failed messageExpression: {trouble}"
                denials.append(Denial(said, "Invalid", index, error_type))
        elif outcome.value is not True:
            said = messages[index]
            message = said or validation.message.strip() or f"failed expression: {validation.expression.strip()}"
            denials.append(Denial(message, validation.reason or "Invalid", index))
    return denials, forgiven


def _messages(policy: ValidatingPolicy, inputs: dict[str, Any], budget: CelCostBudget) -> tuple[list[str], str]:
    """Return the message of each validation, empty if not printable, and the error that ended the evaluation."""
    evaluation = Evaluation(inputs, budget, policy.expressions.variables)
    try:
        outcomes = [
            evaluation.evaluate(message) if message else EvaluationResult(None) for _, _, message in policy.validations
        ]
    except CelBudgetExceeded as error:
        return [], str(error)
    return [_printable_message(outcome) for outcome in outcomes], ""


def _printable_message(outcome: EvaluationResult) -> str:
    text = outcome.value.strip() if isinstance(outcome.value, str) else ""
    return "" if len(text.encode()) > _LONGEST_MESSAGE or "\n" in text else text


def _annotations(policy: ValidatingPolicy, inputs: dict[str, Any]) -> tuple[list[tuple[str, str]], list[str]]:
    evaluation = Evaluation(inputs, CelCostBudget(POLICY_BUDGET), policy.expressions.variables)
    found: list[tuple[str, str]] = []
    failed: list[str] = []
    for key, expression in policy.annotations:
        value, problem = evaluation.evaluate(expression)
        if problem:
            failed += [] if policy.ignores_failures else [problem]
        elif isinstance(value, str) and value.strip():
            found.append((key, value.strip()))
    return found, failed


class _Record:
    """Collected results of one write: denials, warnings and audit annotations."""

    def __init__(self, subject: VersionedAttributes, metrics: PolicyMetrics) -> None:
        self._subject = subject
        self._metrics = metrics
        self._first: tuple[AdmissionPolicy, PolicyBinding | None, Denial] | None = None
        self._audited: list[dict[str, Any]] = []
        self._annotations: dict[str, list[str]] = {}

    def deny(self, policy: AdmissionPolicy, binding: PolicyBinding | None, denial: Denial) -> None:
        if self._first is None:
            self._first = policy, binding, denial

    def add(self, found: PolicyInvocation, verdict: ValidationResult) -> None:
        policy, binding = found.policy, found.binding
        note, names = self._metrics.observe_validation, (policy.name, binding.name)
        for error_type in verdict.ignored_errors:
            note(*names, error_type, "allow", verdict.seconds)
        for denial in verdict.denials:
            for action in binding.spec.validation_actions:
                self._enforce(action, policy, binding, denial)
                note(*names, denial.error_type, action.lower(), verdict.seconds)
        for key, value in verdict.annotations:
            values = self._annotations.setdefault(f"{policy.name}/{key}", [])
            if value[:_LONGEST_ANNOTATION] not in values:
                values.append(value[:_LONGEST_ANNOTATION])
        for message in verdict.failed_annotations:
            note(*names, error_type_of(message), "deny", verdict.seconds)
            self.deny(policy, binding, Denial(message))

    def _enforce(self, action: str, policy: AdmissionPolicy, binding: PolicyBinding, denial: Denial) -> None:
        if action == "Deny":
            self.deny(policy, binding, denial)
        elif action == "Warn":
            where = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            self._subject.attributes.warn(f"Validation failed for {where}: {denial.message}")
        elif action == "Audit":
            self._audited.append(
                {
                    "message": denial.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": denial.validation_index,
                    "validationActions": binding.spec.validation_actions,
                }
            )

    def finish(self) -> None:
        """Set the audit annotations, and raise the denial if there is one."""
        annotations = self._subject.attributes.annotations
        for key, values in self._annotations.items():
            annotations.setdefault(key, ", ".join(values))
        if self._audited:
            annotations[_FAILURES] = msgspec.json.encode(self._audited[:_MAX_FAILURES]).decode()
        if self._first is not None:
            raise self._denial_error(*self._first)

    def _denial_error(self, policy: AdmissionPolicy, binding: PolicyBinding | None, denial: Denial) -> errors.ApiError:
        who = f"ValidatingAdmissionPolicy '{policy.name}'"
        if binding is not None:
            who += f" with binding '{binding.name}'"
        message = f"{who} denied request: {denial.message}"
        forbidden = self._subject.attributes.forbidden(message, [errors.StatusCause(message=message)])
        kind = errors.ApiError.by_reason[denial.reason]
        return kind(forbidden.message, forbidden.details, code=_CODES.get(denial.reason, 422))
