"""Evaluates CEL expressions of policies and webhooks, with timing and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kubeloop.api.expressions.admission import Expression
from kubeloop.apiserver.admission.dynamic.expressions import (
    CONDITIONS_BUDGET,
    Budget,
    ConditionsFailed,
    Decision,
    Evaluation,
    decided,
)
from kubeloop.apiserver.admission.dynamic.metrics import AdmissionMetrics, Conditions
from kubeloop.apiserver.background.offload import Aside
from kubeloop.clock import Clock

T = TypeVar("T")


class Judge:
    """Evaluator of expressions, shared by policies and webhooks."""

    def __init__(self, aside: Aside, metrics: AdmissionMetrics, clock: Clock) -> None:
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
        conditions: Sequence[Expression],
        inputs: Mapping[str, Any],
        about: Conditions,
        *,
        lenient: bool,
        variables: Mapping[str, Expression] | None = None,
    ) -> bool:
        """Return True if all conditions hold.

        Raises `ConditionsFailed` if the evaluation fails and `lenient` is not set.
        """

        def decide() -> Decision:
            return decided(conditions, Evaluation(inputs, Budget(CONDITIONS_BUDGET), variables), lenient)

        decision, seconds = await self.evaluated(decide)
        self.metrics.conditions.evaluated(about, decision, seconds)
        if decision.failure:
            raise ConditionsFailed(decision.failure)
        return decision.met
