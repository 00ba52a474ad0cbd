# SPDX-License-Identifier: Apache-2.0
"""Validation of HorizontalPodAutoscalers: targets, metrics and scaling behavior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubeloop.api.generated import autoscaling_v2
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_path_segment_name
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.validation.pods.containers.compute_resources import validate_container_resource_name
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    NOT_NEGATIVE,
    check_errors,
    validate_dns_label,
    validate_nonnegative,
    validate_positive,
)

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_MAX_PERIOD: Final = 1800
_MAX_WINDOW: Final = 3600
_SELECT_POLICIES: Final = frozenset(("Disabled", "Max", "Min"))
_POLICY_TYPES: Final = frozenset(("Percent", "Pods"))
_TARGET_TYPES: Final = ("Utilization", "Value", "AverageValue")
_NO_METRIC_TO_WAKE: Final = "must specify at least one Object or External metric to support scaling to zero replicas"
_FIELD_OF_TYPE: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def _validate_create(obj: autoscaling_v2.HorizontalPodAutoscaler) -> FieldErrors:
    return _validate_spec(obj.spec, None)


def _validate_update(
    new: autoscaling_v2.HorizontalPodAutoscaler, old: autoscaling_v2.HorizontalPodAutoscaler
) -> FieldErrors:
    return _validate_spec(new.spec, old.spec)


def _validate_spec(
    spec: autoscaling_v2.HorizontalPodAutoscalerSpec, old: autoscaling_v2.HorizontalPodAutoscalerSpec | None
) -> FieldErrors:
    errors = _validate_bounds(spec)
    errors += _validate_reference(spec.scale_target_ref, _SPEC.child("scaleTargetRef"))
    if not _same_target_kind(spec, old):
        core = spec.scale_target_ref.kind == "ReplicationController"
        errors += _validate_api_version(spec.scale_target_ref, core, _SPEC.child("scaleTargetRef"))
    errors += _validate_metrics(spec, old)
    if spec.behavior is not None:
        for name, rules in (("scaleUp", spec.behavior.scale_up), ("scaleDown", spec.behavior.scale_down)):
            if rules is not None:
                errors += _validate_rules(rules, _SPEC.child("behavior", name))
    return sort_generated_last(errors)


def _validate_bounds(spec: autoscaling_v2.HorizontalPodAutoscalerSpec) -> FieldErrors:
    errors = mark_generated(validate_nonnegative(spec.min_replicas, _SPEC.child("minReplicas")))
    path = _SPEC.child("maxReplicas")
    if spec.max_replicas == 0:
        errors += mark_generated([required(path)])
    elif spec.max_replicas < 0:
        errors += mark_generated([invalid(path, spec.max_replicas, "must be greater than or equal to 1")])
    if spec.min_replicas is not None and spec.max_replicas < spec.min_replicas:
        errors.append(invalid(path, spec.max_replicas, "must be greater than or equal to `minReplicas`"))
    return errors


def _same_target_kind(
    spec: autoscaling_v2.HorizontalPodAutoscalerSpec, old: autoscaling_v2.HorizontalPodAutoscalerSpec | None
) -> bool:
    if old is None:
        return False
    after, before = spec.scale_target_ref, old.scale_target_ref
    return (after.api_version, after.kind) == (before.api_version, before.kind)


def _validate_reference(reference: autoscaling_v2.CrossVersionObjectReference, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            errors.append(required(path.child(name)))
        else:
            errors += check_errors(check_path_segment_name, value, path.child(name))
    return errors


def _validate_api_version(
    reference: autoscaling_v2.CrossVersionObjectReference, core: bool, path: FieldPath
) -> FieldErrors:
    """Validate a group and version; the core group, which has no name, only if `core` allows it."""
    version = reference.api_version
    if version.count("/") > 1:
        problem = f"unexpected GroupVersion string: {version}"
    elif not core and not version.rpartition("/")[0]:
        problem = "apiVersion must specify API group"
    else:
        return []
    return [invalid(path.child("apiVersion"), version, problem)]


def _validate_metrics(
    spec: autoscaling_v2.HorizontalPodAutoscalerSpec, old: autoscaling_v2.HorizontalPodAutoscalerSpec | None
) -> FieldErrors:
    path = _SPEC.child("metrics")
    lenient = old is not None and any(
        metric.object is not None
        and metric.type == "Object"
        and _validate_api_version(metric.object.described_object, True, path)
        for metric in old.metrics
    )
    errors: FieldErrors = []
    for index, metric in enumerate(spec.metrics):
        errors += _validate_metric(metric, path.index(index), lenient)
    if spec.min_replicas == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
        errors.append(forbidden(path, _NO_METRIC_TO_WAKE))
    return errors


def _validate_metric(metric: autoscaling_v2.MetricSpec, path: FieldPath, lenient: bool) -> FieldErrors:
    errors: FieldErrors = []
    if not metric.type:
        errors.append(required(path.child("type"), "must specify a metric source type"))
    expected = _FIELD_OF_TYPE.get(metric.type)
    if expected is None:
        errors.append(not_supported(path.child("type"), metric.type, frozenset(_FIELD_OF_TYPE)))
    sources: dict[str, tuple[Any, Callable[[Any, FieldPath], FieldErrors]]] = {
        "object": (metric.object, _validate_object_source if not lenient else _validate_kept_object_source),
        "external": (metric.external, _validate_external_source),
        "pods": (metric.pods, _validate_pods_source),
        "resource": (metric.resource, _validate_resource_source),
        "containerResource": (metric.container_resource, _validate_container_source),
    }
    present = [name for name, (source, _) in sources.items() if source is not None]
    if present:
        # Only the first source is validated: more than one are rejected anyway.
        source, validate = sources[present[0]]
        errors += validate(source, path.child(present[0]))
    if expected is not None and expected not in present:
        errors.append(required(path.child(expected), "must populate information for the given metric source"))
    if len(present) != 1:
        detail = "must populate the given metric source only"
        errors += [forbidden(path.child(name), detail) for name in present if name != expected]
    return errors


def _validate_object_source(source: autoscaling_v2.ObjectMetricSource, path: FieldPath) -> FieldErrors:
    errors = _validate_api_version(source.described_object, True, path.child("describedObject"))
    return errors + _validate_kept_object_source(source, path)


def _validate_kept_object_source(source: autoscaling_v2.ObjectMetricSource, path: FieldPath) -> FieldErrors:
    errors = _validate_reference(source.described_object, path.child("describedObject"))
    errors += _validate_identifier(source.metric, path.child("metric"))
    errors += _validate_target(source.target, path.child("target"))
    if source.target.value is None and source.target.average_value is None:
        detail = "must set either a target value or averageValue"
        errors.append(required(path.child("target", "averageValue"), detail))
    return errors


def _validate_external_source(source: autoscaling_v2.ExternalMetricSource, path: FieldPath) -> FieldErrors:
    errors = _validate_identifier(source.metric, path.child("metric"))
    target, at = source.target, path.child("target")
    errors += _validate_target(target, at)
    if target.value is None and target.average_value is None:
        detail = "must set either a target value for metric or a per-pod target"
        errors.append(required(at.child("averageValue"), detail))
    if target.value is not None and target.average_value is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(at.child("value"), detail))
    return errors


def _validate_pods_source(source: autoscaling_v2.PodsMetricSource, path: FieldPath) -> FieldErrors:
    errors = _validate_identifier(source.metric, path.child("metric"))
    errors += _validate_target(source.target, path.child("target"))
    if source.target.average_value is None:
        errors.append(required(path.child("target", "averageValue"), "must specify a positive target averageValue"))
    return errors


def _validate_resource_source(source: autoscaling_v2.ResourceMetricSource, path: FieldPath) -> FieldErrors:
    missing = [] if source.name else [required(path.child("name"), "must specify a resource name")]
    return missing + _validate_resource_target(source.target, path.child("target"))


def _validate_container_source(source: autoscaling_v2.ContainerResourceMetricSource, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not source.name:
        errors.append(required(path.child("name"), "must specify a resource name"))
    else:
        errors += validate_container_resource_name(source.name, path.child("name"))
    if not source.container:
        errors.append(required(path.child("container"), "must specify a container"))
    else:
        errors += validate_dns_label(source.container, path.child("container"))
    return errors + _validate_resource_target(source.target, path.child("target"))


def _validate_resource_target(target: autoscaling_v2.MetricTarget, path: FieldPath) -> FieldErrors:
    errors = _validate_target(target, path)
    utilization, value = target.average_utilization, target.average_value
    if utilization is None and value is None:
        detail = "must set either a target raw value or a target utilization"
        errors.append(required(path.child("averageUtilization"), detail))
    if utilization is not None and value is not None:
        detail = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(path.child("averageValue"), detail))
    return errors


def _validate_target(target: autoscaling_v2.MetricTarget, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not target.type:
        errors.append(required(path.child("type"), "must specify a metric target type"))
    if target.type not in _TARGET_TYPES:
        errors.append(invalid(path.child("type"), target.type, "must be either Utilization, Value, or AverageValue"))
    for name, amount in (("value", target.value), ("averageValue", target.average_value)):
        if amount is not None and parse_quantity(amount).sign() <= 0:
            errors.append(invalid(path.child(name), amount, "must be positive"))
    if target.average_utilization is not None and target.average_utilization < 1:
        errors.append(invalid(path.child("averageUtilization"), target.average_utilization, "must be greater than 0"))
    return errors


def _validate_identifier(metric: autoscaling_v2.MetricIdentifier, path: FieldPath) -> FieldErrors:
    if not metric.name:
        return [required(path.child("name"), "must specify a metric name")]
    return check_errors(check_path_segment_name, metric.name, path.child("name"))


def _validate_rules(rules: autoscaling_v2.HPAScalingRules, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    window, at = rules.stabilization_window_seconds, path.child("stabilizationWindowSeconds")
    if window is not None and window < 0:
        errors.append(invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW:
        errors.append(invalid(at, window, f"must be less than or equal to {_MAX_WINDOW}"))
    if rules.select_policy is not None and rules.select_policy not in _SELECT_POLICIES:
        errors.append(not_supported(path.child("selectPolicy"), rules.select_policy, _SELECT_POLICIES))
    if not rules.policies:
        errors.append(required(path.child("policies"), "must specify at least one Policy"))
    for index, policy in enumerate(rules.policies or ()):
        errors += _validate_policy(policy, path.child("policies").index(index))
    if rules.tolerance is not None and parse_quantity(rules.tolerance).sign() < 0:
        errors.append(invalid(path.child("tolerance"), rules.tolerance, NOT_NEGATIVE))
    return errors


def _validate_policy(policy: autoscaling_v2.HPAScalingPolicy, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if policy.type not in _POLICY_TYPES:
        errors.append(not_supported(path.child("type"), policy.type, _POLICY_TYPES))
    errors += validate_positive(policy.value, path.child("value"))
    errors += validate_positive(policy.period_seconds, path.child("periodSeconds"))
    if policy.period_seconds > _MAX_PERIOD:
        detail = f"must be less than or equal to {_MAX_PERIOD}"
        errors.append(invalid(path.child("periodSeconds"), policy.period_seconds, detail))
    return errors


def _validate_status(
    new: autoscaling_v2.HorizontalPodAutoscaler, old: autoscaling_v2.HorizontalPodAutoscaler
) -> FieldErrors:
    errors: FieldErrors = []
    for index, condition in enumerate(new.status.conditions):
        at = _STATUS.child("conditions").index(index).child("observedGeneration")
        errors += validate_nonnegative(condition.observed_generation, at)
    errors += validate_nonnegative(new.status.current_replicas, _STATUS.child("currentReplicas"))
    return errors + validate_nonnegative(new.status.desired_replicas, _STATUS.child("desiredReplicas"))


AUTOSCALER = ValidationRules(_validate_create, _validate_update, {"status": _validate_status})
