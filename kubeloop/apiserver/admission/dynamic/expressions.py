# SPDX-License-Identifier: Apache-2.0
"""Evaluates the CEL expressions of policies and match conditions for one write, within a cost budget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kubeloop.api import codec
from kubeloop.api.cel.library import authorizer as library
from kubeloop.api.cel.program import CALL_LIMIT
from kubeloop.api.cel.values import CelError, Timestamp
from kubeloop.api.expressions.admission import VARIABLES, CompiledExpression
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import aggregate
from kubeloop.apiserver.admission.dynamic.versioned_attributes import VersionedAttributes
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.background.offload import call_in_loop
from kubeloop.apiserver.request.context import User

POLICY_BUDGET: Final = 10_000_000
CONDITIONS_BUDGET: Final = 2_500_000
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_OMITTED_NAMESPACE_FIELDS: Final = ("managedFields", "ownerReferences", "selfLink")
_ACCOUNTS: Final = "system:serviceaccounts"


class CelBudgetExceeded(Exception):
    """Error for an exhausted cost budget: nothing more is evaluated."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


class MatchConditionsError(Exception):
    """Error for match conditions that could not be evaluated."""


class EvaluationResult(NamedTuple):
    """Value of an expression, or the error that prevented it."""

    value: Any
    error: str = ""


@dataclass(slots=True)
class CelCostBudget:
    """Remaining cost budget."""

    remaining: int

    def spend(self, cost: int) -> None:
        """Subtract a cost; raises `CelBudgetExceeded`."""
        if cost > self.remaining:
            raise CelBudgetExceeded
        self.remaining -= cost


class Variables(Mapping[str, Any]):
    """Variables of a policy: each is evaluated lazily, at most once."""

    def __init__(self, expressions: Mapping[str, CompiledExpression], seen: Mapping[str, Any]) -> None:
        self._expressions = expressions
        self._activation = seen
        self._cache: dict[str, Any] = {}
        self.cost = 0

    def __getitem__(self, name: str) -> Any:
        if name not in self._cache:
            self._cache[name] = self._evaluate(name, self._expressions[name])
        found = self._cache[name]
        if isinstance(found, CelError):
            raise found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._expressions)

    def __len__(self) -> int:
        return len(self._expressions)

    def _evaluate(self, name: str, expression: CompiledExpression) -> Any:
        if expression.program is None:
            return CelError(f'composited variable "{name}" fails to compile: {expression.error}')
        try:
            value, cost = expression.program.evaluate(self._activation)
        except CelError as error:
            self.cost += error.cost
            return CelError(f'composited variable "{name}" fails to evaluate: {error}')
        self.cost += cost
        return value


class Evaluation:
    """Evaluation of several expressions that share their variables and a budget."""

    def __init__(
        self,
        inputs: Mapping[str, Any],
        budget: CelCostBudget,
        variables: Mapping[str, CompiledExpression] | None = None,
    ) -> None:
        self._activation: dict[str, Any] = dict(inputs)
        self._variables: Variables | None = None
        if variables is not None:
            self._variables = self._activation[VARIABLES] = Variables(variables, self._activation)
        self._budget = budget

    def evaluate(self, expression: CompiledExpression) -> EvaluationResult:
        """Evaluate an expression. Raises `CelBudgetExceeded`."""
        if expression.program is None:
            return EvaluationResult(None, f"compilation error: {expression.error}")
        try:
            value, cost = expression.program.evaluate(self._activation, CALL_LIMIT)
            problem = ""
        except CelError as error:
            value, cost = None, error.cost
            problem = f"expression '{expression.text}' resulted in error: {error}"
        if self._variables is not None:
            spent, self._variables.cost = self._variables.cost, 0
            self._budget.spend(spent)
        self._budget.spend(cost)
        return EvaluationResult(value, problem)


class MatchResult(NamedTuple):
    """Result of match conditions: met or not, the number of errors, and the failure message if not ignored."""

    met: bool
    error_count: int = 0
    failure: str = ""


def evaluate_match_conditions(
    conditions: Sequence[CompiledExpression], evaluation: Evaluation, lenient: bool
) -> MatchResult:
    """Evaluate match conditions: a false one decides; else errors do, unless `lenient` ignores them."""
    try:
        outcomes = [evaluation.evaluate(condition) for condition in conditions]
    except CelBudgetExceeded as error:
        return MatchResult(False, 0, "" if lenient else str(error))
    problems = [one.error for one in outcomes if one.error]
    if any(one.value is False for one in outcomes):
        return MatchResult(False, len(problems))
    return MatchResult(not problems, len(problems), "" if lenient or not problems else aggregate(problems))


# -- CEL variables -----------------------------------------------------------------------------------------------


def request_document(subject: VersionedAttributes, resource: Resource) -> dict[str, Any]:
    """Return the CEL variable `request`: the attributes of a write except its objects."""
    attempt, own = subject.attributes, subject.attributes.resource
    told: dict[str, Any] = {
        "kind": subject.kind_in(resource).document(),
        "resource": _resource_document(resource),
        "subResource": attempt.subresource,
        "requestKind": subject.kind_in(own).document(),
        "requestResource": _resource_document(own),
        "requestSubResource": attempt.subresource,
        "name": subject.name,
        "namespace": subject.namespace,
        "operation": attempt.operation,
        "userInfo": subject.user_info(),
        "dryRun": attempt.dry_run,
        "options": subject.options(),
    }
    return {name: value for name, value in told.items() if value not in ("", None)}


def _resource_document(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


async def cel_variables_of(
    subject: VersionedAttributes,
    resource: Resource,
    namespace: Any,
    authorizer: UnionAuthorizer | None,
    params: Any = None,
) -> dict[str, Any]:
    """Return all CEL variables for expressions about a write."""
    inputs: dict[str, Any] = {
        "object": await subject.document(resource),
        "oldObject": await subject.old_document(resource),
        "request": request_document(subject, resource),
        "namespaceObject": namespace_document(namespace),
        "params": params,
    }
    if authorizer is not None:
        decide = call_in_loop(asyncio.get_running_loop(), memoized_authorizer(authorizer, subject.attributes.user))
        asked = library.CelAuthorizer(decide)
        attempt = subject.attributes
        inputs["authorizer"] = asked
        inputs["authorizer.requestResource"] = library.ResourceCheck(
            asked,
            attempt.resource.group,
            attempt.resource.plural,
            attempt.subresource,
            subject.namespace,
            subject.name,
        )
    return inputs


def namespace_document(namespace: Any) -> dict[str, Any] | None:
    """Return the CEL variable `namespaceObject`, with timestamps as its type declares them."""
    if namespace is None:
        return None
    document: dict[str, Any] = codec.to_plain(namespace)
    metadata = {name: value for name, value in document["metadata"].items() if name not in _OMITTED_NAMESPACE_FIELDS}
    for name in ("creationTimestamp", "deletionTimestamp"):
        if metadata.get(name):
            metadata[name] = Timestamp.fromisoformat(metadata[name])
    status = document.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("lastTransitionTime"):
            condition["lastTransitionTime"] = Timestamp.fromisoformat(condition["lastTransitionTime"])
    return {"metadata": metadata, "spec": document.get("spec") or {}, "status": status}


class DecisionPending(Exception):
    """Raised by an expression that needs a decision of another server: it is evaluated again after `resolve`."""

    def __init__(
        self, pending: Awaitable[AuthorizationDecision], keep: Callable[[AuthorizationDecision], None]
    ) -> None:
        super().__init__("the decision of an authorizer is pending")
        self._pending = pending
        self._keep = keep

    async def resolve(self) -> None:
        """Wait for the decision, and keep it for the next evaluation."""
        self._keep(await self._pending)


def memoized_authorizer(
    authorizer: UnionAuthorizer, user: User
) -> Callable[[library.PathCheck | library.ResourceCheck, str], library.CelDecision]:
    """Return the authorization function for CEL's `authorizer`; equal questions are evaluated once.

    It raises `DecisionPending` where the authorizer has to wait.
    """
    known: dict[tuple[Any, str], library.CelDecision] = {}

    def decide(asked: library.PathCheck | library.ResourceCheck, verb: str) -> library.CelDecision:
        def keep(decision: AuthorizationDecision) -> None:
            known[asked, verb] = library.CelDecision(decision.allowed, decision.reason, decision.error)

        if (asked, verb) not in known:
            decision = authorizer.decide(_attributes(asked, verb, user))
            if not isinstance(decision, AuthorizationDecision):
                raise DecisionPending(decision, keep)
            keep(decision)
        return known[asked, verb]

    return decide


def _attributes(asked: library.PathCheck | library.ResourceCheck, verb: str, user: User) -> AuthorizationAttributes:
    if (account := asked.authorizer.service_account) is not None:
        namespace, name = account
        user = User(f"system:serviceaccount:{namespace}:{name}", (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}"))
    if isinstance(asked, library.PathCheck):
        return AuthorizationAttributes(user, verb, path=asked.path)
    return AuthorizationAttributes(
        user, verb, asked.group, "*", asked.resource, asked.subresource, asked.namespace, asked.name
    )
