"""Has expressions evaluated for those who ask about a write, and notes how long it took and what came of it."""

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
    """Shared by policies and webhooks."""

    def __init__(self, aside: Aside, metrics: AdmissionMetrics, clock: Clock) -> None:
        self._aside = aside
        self.metrics = metrics
        self.clock = clock

    async def evaluated(self, work: Callable[..., T], *args: Any) -> tuple[T, float]:
        """What something that evaluates expressions comes to, and in how many seconds."""
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
        """Whether all conditions hold. Raises `ConditionsFailed` where that can't be found out, and is not forgiven."""

        def decide() -> Decision:
            return decided(conditions, Evaluation(inputs, Budget(CONDITIONS_BUDGET), variables), lenient)

        decision, seconds = await self.evaluated(decide)
        self.metrics.conditions.evaluated(about, decision, seconds)
        if decision.failure:
            raise ConditionsFailed(decision.failure)
        return decision.met
