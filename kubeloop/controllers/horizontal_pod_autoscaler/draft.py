"""An autoscaler's status while it is being found out."""

from __future__ import annotations

from datetime import datetime

import msgspec

from kubeloop.api.generated.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from kubeloop.api.meta.conditions import set_condition
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time

replace = msgspec.structs.replace


class NothingToGoBy(Exception):
    """No size can be computed; the autoscaler's conditions tell why."""

    def __init__(self, message: str, error: str = "internal") -> None:
        super().__init__(message)
        self.error = error  # whose fault it is, as instruments call it


class Draft:
    """An autoscaler's status as it will be told, while it is being found out."""

    def __init__(self, stored: HorizontalPodAutoscaler, now: datetime) -> None:
        self.stored = stored
        self.status: HorizontalPodAutoscalerStatus = stored.status
        self.now = now
        self.action = "none"  # what was done, as instruments call it
        self.error = "none"  # whose fault it is that not all could be done, as they call it
        self._stamp = Time(format_time(now))

    def tell(self, type: str, status: bool, reason: str, message: str) -> None:
        new = HorizontalPodAutoscalerCondition(
            type=type, status="True" if status else "False", reason=reason, message=message
        )
        self.status = replace(self.status, conditions=set_condition(self.status.conditions, new, self._stamp))

    def untell(self, type: str) -> None:
        """A condition that nobody keeps any more."""
        left = tuple(one for one in self.status.conditions if one.type != type)
        self.status = replace(self.status, conditions=left)

    def count(self, current: int, desired: int, metrics: tuple[MetricStatus, ...] | None, rescaled: bool) -> None:
        self.status = replace(
            self.status,
            current_replicas=current,
            desired_replicas=desired,
            current_metrics=metrics,
            last_scale_time=self._stamp if rescaled else self.status.last_scale_time,
            observed_generation=self.stored.metadata.generation,
        )
