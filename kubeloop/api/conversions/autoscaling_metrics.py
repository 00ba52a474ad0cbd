# SPDX-License-Identifier: Apache-2.0
"""Conversion of autoscaling/v2's metrics and behavior to and from the form in autoscaling/v1's annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kubeloop.api.conversions import autoscaling_annotations as old
from kubeloop.api.conversions.autoscaling_annotations import ZERO
from kubeloop.api.generated import autoscaling_v2 as v2
from kubeloop.api.generated.meta_v1 import LabelSelector

S = TypeVar("S")
T = TypeVar("T")


def _optional(convert: Callable[[S], T], value: S | None) -> T | None:
    return None if value is None else convert(value)


def metric_to_annotation(metric: v2.MetricSpec) -> old.Metric:
    """Convert a v2 metric to the annotation's form."""
    return old.Metric(
        type=metric.type,
        object=_optional(_old_object, metric.object),
        pods=_optional(_old_pods, metric.pods),
        resource=_optional(_old_resource, metric.resource),
        container_resource=_optional(_old_container, metric.container_resource),
        external=_optional(_old_external, metric.external),
    )


def _old_object(source: v2.ObjectMetricSource) -> old.ObjectMetric:
    metric, target = source.metric, source.target
    described = _old_reference(source.described_object)
    return old.ObjectMetric(described, metric.name, target.value or ZERO, metric.selector, target.average_value)


def _old_pods(source: v2.PodsMetricSource) -> old.PodsMetric:
    return old.PodsMetric(source.metric.name, source.target.average_value or ZERO, source.metric.selector)


def _old_resource(source: v2.ResourceMetricSource) -> old.ResourceMetric:
    return old.ResourceMetric(source.name, source.target.average_utilization, source.target.average_value)


def _old_container(source: v2.ContainerResourceMetricSource) -> old.ContainerResourceMetric:
    target = source.target
    return old.ContainerResourceMetric(source.name, target.average_utilization, target.average_value, source.container)


def _old_external(source: v2.ExternalMetricSource) -> old.ExternalMetric:
    metric, target = source.metric, source.target
    return old.ExternalMetric(metric.name, metric.selector, target.value, target.average_value)


def _old_reference(reference: v2.CrossVersionObjectReference) -> old.CrossVersionReference:
    return old.CrossVersionReference(reference.kind, reference.name, reference.api_version)


def metric_from_annotation(metric: old.Metric) -> v2.MetricSpec:
    """Convert a metric of the annotation's form to v2; the target's type follows from the value that is set."""
    return v2.MetricSpec(
        type=metric.type,
        object=_optional(_new_object, metric.object),
        pods=_optional(_new_pods, metric.pods),
        resource=_optional(_new_resource, metric.resource),
        container_resource=_optional(_new_container, metric.container_resource),
        external=_optional(_new_external, metric.external),
    )


def _new_object(source: old.ObjectMetric) -> v2.ObjectMetricSource:
    by_average = source.average_value is not None
    # The old form can't omit the value; beside an average, zero means absent.
    value = None if by_average and source.target_value == ZERO else source.target_value
    return v2.ObjectMetricSource(
        described_object=_new_reference(source.target),
        metric=_identifier(source.metric_name, source.selector),
        target=v2.MetricTarget(
            type="AverageValue" if by_average else "Value", value=value, average_value=source.average_value
        ),
    )


def _new_pods(source: old.PodsMetric) -> v2.PodsMetricSource:
    return v2.PodsMetricSource(
        metric=_identifier(source.metric_name, source.selector),
        target=v2.MetricTarget(type="AverageValue", average_value=source.target_average_value),
    )


def _new_resource(source: old.ResourceMetric) -> v2.ResourceMetricSource:
    return v2.ResourceMetricSource(name=source.name, target=_resource_target(source))


def _new_container(source: old.ContainerResourceMetric) -> v2.ContainerResourceMetricSource:
    return v2.ContainerResourceMetricSource(
        name=source.name, container=source.container, target=_resource_target(source)
    )


def _new_external(source: old.ExternalMetric) -> v2.ExternalMetricSource:
    return v2.ExternalMetricSource(
        metric=_identifier(source.metric_name, source.metric_selector),
        target=v2.MetricTarget(
            type="AverageValue" if source.target_value is None else "Value",
            value=source.target_value,
            average_value=source.target_average_value,
        ),
    )


def _new_reference(reference: old.CrossVersionReference) -> v2.CrossVersionObjectReference:
    return v2.CrossVersionObjectReference(kind=reference.kind, name=reference.name, api_version=reference.api_version)


def _identifier(name: str, selector: LabelSelector | None) -> v2.MetricIdentifier:
    return v2.MetricIdentifier(name=name, selector=selector)


def _resource_target(source: old.ResourceMetric | old.ContainerResourceMetric) -> v2.MetricTarget:
    utilization = source.target_average_utilization
    return v2.MetricTarget(
        type="AverageValue" if utilization is None else "Utilization",
        average_value=source.target_average_value,
        average_utilization=utilization,
    )


def metric_status_to_annotation(status: v2.MetricStatus) -> old.MetricStatus:
    """Convert a v2 metric status to the annotation's form."""
    return old.MetricStatus(
        type=status.type,
        object=_optional(_old_object_status, status.object),
        pods=_optional(_old_pods_status, status.pods),
        resource=_optional(_old_resource_status, status.resource),
        container_resource=_optional(_old_container_status, status.container_resource),
        external=_optional(_old_external_status, status.external),
    )


def _old_object_status(source: v2.ObjectMetricStatus) -> old.ObjectStatus:
    metric, current = source.metric, source.current
    described = _old_reference(source.described_object)
    return old.ObjectStatus(described, metric.name, current.value or ZERO, metric.selector, current.average_value)


def _old_pods_status(source: v2.PodsMetricStatus) -> old.PodsStatus:
    return old.PodsStatus(source.metric.name, source.current.average_value or ZERO, source.metric.selector)


def _old_resource_status(source: v2.ResourceMetricStatus) -> old.ResourceStatus:
    current = source.current
    return old.ResourceStatus(source.name, current.average_utilization, current.average_value or ZERO)


def _old_container_status(source: v2.ContainerResourceMetricStatus) -> old.ContainerResourceStatus:
    current = source.current
    return old.ContainerResourceStatus(
        source.name, current.average_utilization, current.average_value or ZERO, source.container
    )


def _old_external_status(source: v2.ExternalMetricStatus) -> old.ExternalStatus:
    metric, current = source.metric, source.current
    return old.ExternalStatus(metric.name, metric.selector, current.value or ZERO, current.average_value)


def metric_status_from_annotation(status: old.MetricStatus) -> v2.MetricStatus:
    """Convert a metric status of the annotation's form to v2."""
    return v2.MetricStatus(
        type=status.type,
        object=_optional(_new_object_status, status.object),
        pods=_optional(_new_pods_status, status.pods),
        resource=_optional(_new_resource_status, status.resource),
        container_resource=_optional(_new_container_status, status.container_resource),
        external=_optional(_new_external_status, status.external),
    )


def _new_object_status(source: old.ObjectStatus) -> v2.ObjectMetricStatus:
    return v2.ObjectMetricStatus(
        described_object=_new_reference(source.target),
        metric=_identifier(source.metric_name, source.selector),
        current=v2.MetricValueStatus(value=source.current_value, average_value=source.average_value),
    )


def _new_pods_status(source: old.PodsStatus) -> v2.PodsMetricStatus:
    return v2.PodsMetricStatus(
        metric=_identifier(source.metric_name, source.selector),
        current=v2.MetricValueStatus(average_value=source.current_average_value),
    )


def _new_resource_status(source: old.ResourceStatus) -> v2.ResourceMetricStatus:
    return v2.ResourceMetricStatus(name=source.name, current=_resource_value(source))


def _new_container_status(source: old.ContainerResourceStatus) -> v2.ContainerResourceMetricStatus:
    return v2.ContainerResourceMetricStatus(
        name=source.name, container=source.container, current=_resource_value(source)
    )


def _new_external_status(source: old.ExternalStatus) -> v2.ExternalMetricStatus:
    return v2.ExternalMetricStatus(
        metric=_identifier(source.metric_name, source.metric_selector),
        current=v2.MetricValueStatus(value=source.current_value, average_value=source.current_average_value),
    )


def _resource_value(source: old.ResourceStatus | old.ContainerResourceStatus) -> v2.MetricValueStatus:
    return v2.MetricValueStatus(
        average_value=source.current_average_value, average_utilization=source.current_average_utilization
    )


def behavior_to_annotation(behavior: v2.HorizontalPodAutoscalerBehavior) -> old.Behavior:
    """Convert a v2 behavior to its annotation: upstream's internal names, nothing left out."""
    return old.Behavior(_optional(_old_rules, behavior.scale_up), _optional(_old_rules, behavior.scale_down))


def _old_rules(rules: v2.HPAScalingRules) -> old.ScalingRules:
    policies = tuple(
        old.ScalingPolicy(policy.type, policy.value, policy.period_seconds) for policy in rules.policies or ()
    )
    return old.ScalingRules(rules.stabilization_window_seconds, rules.select_policy, policies or None, rules.tolerance)


def behavior_from_annotation(behavior: old.Behavior) -> v2.HorizontalPodAutoscalerBehavior:
    """Convert a behavior of the annotation's form to v2."""
    return v2.HorizontalPodAutoscalerBehavior(
        scale_up=_optional(_new_rules, behavior.scale_up), scale_down=_optional(_new_rules, behavior.scale_down)
    )


def _new_rules(rules: old.ScalingRules) -> v2.HPAScalingRules:
    return v2.HPAScalingRules(
        stabilization_window_seconds=rules.stabilization_window_seconds,
        select_policy=rules.select_policy,
        policies=tuple(
            v2.HPAScalingPolicy(type=policy.type, value=policy.value, period_seconds=policy.period_seconds)
            for policy in rules.policies
        )
        if rules.policies is not None
        else None,
        tolerance=rules.tolerance,
    )


def condition_to_annotation(condition: v2.HorizontalPodAutoscalerCondition) -> old.AutoscalerCondition:
    """Convert a v2 condition to the annotation's form."""
    return old.AutoscalerCondition(
        condition.type,
        condition.status,
        condition.last_transition_time,
        condition.reason,
        condition.message,
        condition.observed_generation,
    )


def condition_from_annotation(condition: old.AutoscalerCondition) -> v2.HorizontalPodAutoscalerCondition:
    """Convert a condition of the annotation's form to v2."""
    return v2.HorizontalPodAutoscalerCondition(
        type=condition.type,
        status=condition.status,
        last_transition_time=condition.last_transition_time,
        reason=condition.reason,
        message=condition.message,
        observed_generation=condition.observed_generation,
    )
