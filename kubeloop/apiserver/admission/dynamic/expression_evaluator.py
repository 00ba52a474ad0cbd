"""Evaluates CEL expressions of policies and webhooks, with timing and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kubeloop.api.expressions.admission import CompiledExpression
from kubeloop.apiserver.admission.dynamic.expressions import (
    CONDITIONS_BUDGET,
    CelCostBudget,
    Evaluation,
    MatchConditionsError,
    MatchResult,
    evaluate_match_conditions,
)
from kubeloop.apiserver.admission.dynamic.metrics import AdmissionMetrics, MatchConditionLabels
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.clock import Clock

T = TypeVar("T")


class ExpressionEvaluator:
    """Evaluator of expressions, shared by policies and webhooks."""

    def __init__(self, aside: WorkerThread, metrics: AdmissionMetrics, clock: Clock) -> None:
        self._aside = aside
        self.metrics = metrics
        self.clock = clock

    async def evaluated(self, work: Callable[..., T], *args: Any) -> tuple[T, float]:
        """Run a function that evaluates expressions within the time budget; return its result and seconds."""
        started = self.clock.monotonic()
        result = await self._aside.patiently(work, *args)
        return result, self.clock.monotonic() - started

    async def are_met(
        self,
        conditions: Sequence[CompiledExpression],
        inputs: Mapping[str, Any],
        about: MatchConditionLabels,
        *,
        lenient: bool,
        variables: Mapping[str, CompiledExpression] | None = None,
    ) -> bool:
        """Return True if all conditions hold.

        Raises `MatchConditionsError` if the evaluation fails and `lenient` is not set.
        """

        def decide() -> MatchResult:
            return evaluate_match_conditions(
                conditions, Evaluation(inputs, CelCostBudget(CONDITIONS_BUDGET), variables), lenient
            )

        decision, seconds = await self.evaluated(decide)
        self.metrics.conditions.evaluated(about, decision, seconds)
        if decision.failure:
            raise MatchConditionsError(decision.failure)
        return decision.met
