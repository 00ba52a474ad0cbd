# SPDX-License-Identifier: Apache-2.0
"""Status of an autoscaler during its sync."""

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


class ScalingUnavailable(Exception):
    """Raised if no size can be computed; the conditions give the reason."""

    def __init__(self, message: str, error: str = "internal") -> None:
        super().__init__(message)
        self.error = error  # metric label of the error's cause


class StatusDraft:
    """Status that a sync builds step by step."""

    def __init__(self, stored: HorizontalPodAutoscaler, now: datetime) -> None:
        self.stored = stored
        self.status: HorizontalPodAutoscalerStatus = stored.status
        self.now = now
        self.action = "none"  # metric label of the action
        self.error = "none"  # metric label of the failure's cause
        self._stamp = Time(format_time(now))

    def set_condition(self, type: str, status: bool, reason: str, message: str) -> None:
        """Set a condition."""
        new = HorizontalPodAutoscalerCondition(
            type=type, status="True" if status else "False", reason=reason, message=message
        )
        self.status = replace(self.status, conditions=set_condition(self.status.conditions, new, self._stamp))

    def remove_condition(self, type: str) -> None:
        """Remove an obsolete condition."""
        left = tuple(one for one in self.status.conditions if one.type != type)
        self.status = replace(self.status, conditions=left)

    def set_status(self, current: int, desired: int, metrics: tuple[MetricStatus, ...] | None, rescaled: bool) -> None:
        """Set the replicas and metrics."""
        self.status = replace(
            self.status,
            current_replicas=current,
            desired_replicas=desired,
            current_metrics=metrics,
            last_scale_time=self._stamp if rescaled else self.status.last_scale_time,
            observed_generation=self.stored.metadata.generation,
        )
