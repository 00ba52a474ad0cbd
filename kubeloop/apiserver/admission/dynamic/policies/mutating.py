# SPDX-License-Identifier: Apache-2.0
"""MutatingAdmissionPolicy: applies the patches of expressions to a write, policy by policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kubeloop.api import errors
from kubeloop.api.expressions.admission import CompiledExpression
from kubeloop.api.kinds import Resource
from kubeloop.api.schema import node_of
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
from kubeloop.apiserver.admission.dynamic.metrics import COMPILE, INVALID, NO_ERROR, OUT_OF_BUDGET, MatchConditionLabels
from kubeloop.apiserver.admission.dynamic.policies.invocations import (
    InvocationFailure,
    PolicyInvocation,
    invocations,
    namespace_of_subject,
)
from kubeloop.apiserver.admission.dynamic.policies.patches import (
    PolicyPatchError,
    apply_configuration,
    apply_operations,
)
from kubeloop.apiserver.admission.dynamic.policies.policies import AdmissionPolicy, MutatingPolicy, PolicyBinding
from kubeloop.apiserver.admission.dynamic.reinvocation import ReinvocationContext
from kubeloop.apiserver.admission.dynamic.versioned_attributes import Document, VersionedAttributes
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.registry.storage import StorageRegistry


class _PolicyError(NamedTuple):
    """Error of one policy; the reason is that of a Status."""

    policy: AdmissionPolicy
    binding: PolicyBinding | None
    message: str
    reason: str = ""

    def __str__(self) -> str:
        if self.binding is None:
            return f'policy "{self.policy.name}" denied request: {self.message}'
        return f"policy '{self.policy.name}' with binding '{self.binding.name}' denied request: {self.message}"


class MutatingPolicyDispatcher:
    """Dispatcher of a server's mutating policies."""

    def __init__(
        self, matcher: Matcher, registry: StorageRegistry, authorizer: UnionAuthorizer, judge: ExpressionEvaluator
    ) -> None:
        self._matcher = matcher
        self._evaluator = judge
        self._registry = registry
        self._authorizer = authorizer

    async def mutate(
        self, policies: Sequence[MutatingPolicy], subject: VersionedAttributes, participants: ReinvocationContext
    ) -> None:
        """Apply the policies to a write; raises one error for all policies that failed and are not ignored."""
        found = list(invocations(policies, subject, self._matcher, self._registry))
        if not found:
            return
        own = subject.attributes.resource
        problems: list[_PolicyError] = []
        participants.begin(await subject.document(own))
        for one in found:
            if isinstance(one, InvocationFailure):
                problems.append(_PolicyError(*one))
            else:
                problems += await self._invoke(one, subject, participants)
        participants.require_after_change()  # unlike webhooks, a policy is called again for its own change
        participants.end(await subject.document(own))
        told = [problem for problem in problems if not problem.policy.ignores_failures]
        if told:
            raise _policy_error(subject, told)

    async def _invoke(
        self, found: PolicyInvocation, subject: VersionedAttributes, participants: ReinvocationContext
    ) -> list[_PolicyError]:
        policy: MutatingPolicy = found.policy
        try:
            if policy.conditions and not await self._applies(found, subject):
                return []
        except MatchConditionsError as error:
            return [_PolicyError(policy, found.binding, str(error), "Invalid")]
        who = (policy.name, found.binding.name, _name_of(found.params))
        if not participants.should_invoke(who):
            return []
        problems: list[_PolicyError] = []
        changed = False
        clock, note = self._evaluator.clock, self._evaluator.metrics.policies.observe_mutation
        for kind, expression in policy.mutations:
            started, error_type = clock.monotonic(), NO_ERROR
            try:
                changed |= await self._apply_mutation(found, subject, kind, expression)
            except (PolicyPatchError, CelBudgetExceeded) as error:
                error_type = _error_type(expression, error)
                problems.append(_PolicyError(policy, found.binding, str(error), "Invalid"))
            note(policy.name, found.binding.name, error_type, clock.monotonic() - started)
        comes_again = policy.spec.reinvocation_policy == "IfNeeded"
        participants.record_call(who, changed=changed, comes_again=comes_again)
        return problems

    async def _applies(self, found: PolicyInvocation, subject: VersionedAttributes) -> bool:
        policy: MutatingPolicy = found.policy
        inputs = await cel_variables_of(subject, found.resource, None, self._authorizer, found.params)
        about = MatchConditionLabels(policy.name, "policy", "validate", subject.attributes.operation)
        variables = policy.expressions.variables
        return await self._evaluator.match_conditions(
            policy.conditions, inputs, about, lenient=policy.ignores_failures, variables=variables
        )

    async def _apply_mutation(
        self, found: PolicyInvocation, subject: VersionedAttributes, kind: str, expression: CompiledExpression
    ) -> bool:
        """Apply one mutation and return True if it changed the object.

        Raises `PolicyPatchError`, `CelBudgetExceeded` or an ApiError.
        """
        document = await subject.document(found.resource)
        if document is None:
            return False
        if expression.program is None:
            raise PolicyPatchError(expression.error)
        namespace = namespace_of_subject(subject, self._registry)
        inputs = await cel_variables_of(subject, found.resource, namespace, self._authorizer, found.params)
        variables = found.policy.expressions.variables

        def evaluated() -> EvaluationResult:
            return Evaluation(inputs, CelCostBudget(POLICY_BUDGET), variables).evaluate(expression)

        outcome, _ = await self._evaluator.run_timed(evaluated)
        if outcome.error:
            raise PolicyPatchError(outcome.error)
        made = self._patched(document, outcome.value, kind, subject, found.resource)
        if made is document:
            return False
        try:
            return await subject.replace_object(made, found.resource)
        except errors.ApiError as error:
            raise errors.internal_error(error.message) from None

    def _patched(
        self, document: Document, value: Any, kind: str, subject: VersionedAttributes, resource: Resource
    ) -> Document:
        if kind == "JSONPatch":
            return apply_operations(document, value)
        node = (
            node_of(_definition(document)) if subject.kind_in(resource).kind != resource.kind else resource.schema_node
        )
        return apply_configuration(document, value, node)


def _error_type(expression: CompiledExpression, error: PolicyPatchError | CelBudgetExceeded) -> str:
    if isinstance(error, CelBudgetExceeded):
        return OUT_OF_BUDGET
    return COMPILE if expression.program is None else INVALID


def _definition(document: Document) -> str:
    from kubeloop.api.kinds import definition_of

    return definition_of(document["apiVersion"], document["kind"])


def _name_of(params: Any) -> tuple[str, str]:
    metadata = params["metadata"] if params is not None else {}
    return metadata.get("namespace", ""), metadata.get("name", "")


def _policy_error(subject: VersionedAttributes, problems: Sequence[_PolicyError]) -> errors.ApiError:
    """Return upstream's error: the first message and reason, and code 403 whatever the reason."""
    causes = [errors.StatusCause(message=str(problem)) for problem in problems]
    forbidden = subject.attributes.forbidden("", causes)
    error = errors.ApiError(str(problems[0]), forbidden.details, code=403)
    error.reason = problems[0].reason or "Forbidden"
    return error
