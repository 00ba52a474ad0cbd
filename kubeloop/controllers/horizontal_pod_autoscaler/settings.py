# SPDX-License-Identifier: Apache-2.0
"""Settings of autoscaling from the manager's flags and from autoscalers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscaler, HPAScalingRules
from kubeloop.api.meta.conditions import is_true
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.horizontal_pod_autoscaler.replica_calculator import PodStartupDelays, Tolerances

_ZERO_GATE: Final = "HPAScaleToZero"
SCALED_TO_ZERO: Final = "ScaledToZero"  # condition that records if the controller scaled a target to zero


@dataclass(frozen=True, slots=True)
class HpaSettings:
    """Settings from the manager's flags."""

    period: float  # seconds between two reads of the metrics
    down_window: timedelta
    tolerance: float
    startup_delays: PodStartupDelays
    allows_scale_to_zero: bool  # True if targets may be scaled to zero and back


def settings_of(context: ControllerContext) -> HpaSettings:
    """Read the settings from the flags."""
    config = context.config
    return HpaSettings(
        period=config.horizontal_pod_autoscaler_sync_period,
        down_window=timedelta(seconds=config.horizontal_pod_autoscaler_downscale_stabilization),
        tolerance=config.horizontal_pod_autoscaler_tolerance,
        startup_delays=PodStartupDelays(
            initialization=timedelta(seconds=config.horizontal_pod_autoscaler_cpu_initialization_period),
            readiness_delay=timedelta(seconds=config.horizontal_pod_autoscaler_initial_readiness_delay),
        ),
        allows_scale_to_zero=parse_feature_gates(config.feature_gates).is_enabled(_ZERO_GATE),
    )


def min_replicas_of(autoscaler: HorizontalPodAutoscaler) -> int:
    """Return the minimum number of replicas."""
    said = autoscaler.spec.min_replicas
    return 1 if said is None else said


def has_object_or_external_metrics(autoscaler: HorizontalPodAutoscaler) -> bool:
    """Return True if some metrics don't depend on pods."""
    return any(one.type in ("Object", "External") for one in autoscaler.spec.metrics)


def may_scale_from_zero(autoscaler: HorizontalPodAutoscaler) -> bool:
    """Return True if the controller itself scaled the target to zero and may scale it up again."""
    if not is_true(autoscaler.status.conditions, SCALED_TO_ZERO):
        return False
    return min_replicas_of(autoscaler) != 0 or has_object_or_external_metrics(autoscaler)


def tolerances_of(autoscaler: HorizontalPodAutoscaler, usual: float) -> Tolerances:
    """Return the tolerances of an autoscaler, with the flag as default."""
    behavior = autoscaler.spec.behavior

    def said(rules: HPAScalingRules | None) -> float:
        if rules is None or rules.tolerance is None:
            return usual
        return float(parse_quantity(str(rules.tolerance)))

    return (
        Tolerances(usual, usual) if behavior is None else Tolerances(said(behavior.scale_down), said(behavior.scale_up))
    )
