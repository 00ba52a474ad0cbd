# SPDX-License-Identifier: Apache-2.0
"""Defaults of horizontal pod autoscalers."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.autoscaling_v1 import HorizontalPodAutoscaler as HorizontalPodAutoscalerV1
from kubeloop.api.generated.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)

_CPU_AT_80_PERCENT = MetricSpec(
    type="Resource",
    resource=ResourceMetricSource(name="cpu", target=MetricTarget(type="Utilization", average_utilization=80)),
)
_DOUBLE = HPAScalingPolicy(type="Percent", value=100, period_seconds=15)
_FOUR_PODS = HPAScalingPolicy(type="Pods", value=4, period_seconds=15)
_SCALE_UP = HPAScalingRules(stabilization_window_seconds=0, select_policy="Max", policies=(_FOUR_PODS, _DOUBLE))
# The stabilization window for scaling down is a flag of the controller, so the object omits it.
_SCALE_DOWN = HPAScalingRules(select_policy="Max", policies=(_DOUBLE,))


def default_autoscaler(autoscaler: HorizontalPodAutoscaler) -> None:
    """Apply the defaults of a HorizontalPodAutoscaler."""
    spec = autoscaler.spec
    if spec.min_replicas is None:
        force_setattr(spec, "min_replicas", 1)
    if not spec.metrics:
        force_setattr(spec, "metrics", (_CPU_AT_80_PERCENT,))
    if spec.behavior is not None:
        _default_behavior(spec.behavior)


def default_autoscaler_v1(autoscaler: HorizontalPodAutoscalerV1) -> None:
    """Apply the defaults of a v1 autoscaler; the conversion, which knows the annotations, sets the target."""
    if autoscaler.spec.min_replicas is None:
        force_setattr(autoscaler.spec, "min_replicas", 1)


def _default_behavior(behavior: HorizontalPodAutoscalerBehavior) -> None:
    for field, template in (("scale_up", _SCALE_UP), ("scale_down", _SCALE_DOWN)):
        rules: HPAScalingRules | None = getattr(behavior, field)
        if rules is None:
            force_setattr(behavior, field, template)
        else:
            _complete_rules(rules, template)


def _complete_rules(rules: HPAScalingRules, template: HPAScalingRules) -> None:
    if rules.select_policy is None:
        force_setattr(rules, "select_policy", template.select_policy)
    if rules.stabilization_window_seconds is None and template.stabilization_window_seconds is not None:
        force_setattr(rules, "stabilization_window_seconds", template.stabilization_window_seconds)
    if rules.policies is None:  # an empty list is left to validation
        force_setattr(rules, "policies", template.policies)
