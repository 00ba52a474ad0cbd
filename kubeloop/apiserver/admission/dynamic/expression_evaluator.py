# SPDX-License-Identifier: Apache-2.0
"""Evaluates CEL expressions of policies and webhooks, with timing and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kubeloop.api.expressions.admission import CompiledExpression
from kubeloop.apiserver.admission.dynamic.expressions import (
    CONDITIONS_BUDGET,
    CelCostBudget,
    DecisionPending,
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
        self._worker_thread = aside
        self.metrics = metrics
        self.clock = clock

    async def run_timed(self, work: Callable[..., T], *args: Any) -> tuple[T, float]:
        """Run a function that evaluates expressions within the time budget; return its result and seconds.

        The function must be pure: it runs again after each decision that an authorizer has to wait for.
        """
        started = self.clock.monotonic()
        while True:
            try:
                result = await self._worker_thread.run_within_budget(work, *args)
            except DecisionPending as pending:
                await pending.resolve()
            else:
                seconds = self.clock.monotonic() - started
                self.metrics.cel_evaluation.observe(seconds)
                return result, seconds

    async def match_conditions(
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

        decision, seconds = await self.run_timed(decide)
        self.metrics.conditions.observe(about, decision, seconds)
        if decision.failure:
            raise MatchConditionsError(decision.failure)
        return decision.met
