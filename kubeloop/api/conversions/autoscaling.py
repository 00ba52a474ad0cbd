# SPDX-License-Identifier: Apache-2.0
"""Conversion of HorizontalPodAutoscalers between autoscaling/v1 and v2; annotations carry v2's other fields in v1.

A malformed annotation is ignored. The storage version is v2, without these annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from kubeloop.api import codec
from kubeloop.api.conversions import autoscaling_annotations as old
from kubeloop.api.conversions import autoscaling_metrics as spelled
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.generated import autoscaling_v1 as v1
from kubeloop.api.generated import autoscaling_v2 as v2
from kubeloop.api.generated.meta_v1 import ObjectMeta

T = TypeVar("T")

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
METRICS: Final = _PREFIX + "metrics"
CURRENT_METRICS: Final = _PREFIX + "current-metrics"
CONDITIONS: Final = _PREFIX + "conditions"
BEHAVIOR: Final = _PREFIX + "behavior"
# All carrier annotations; the tolerances are from versions before v2 had a field for them.
_OWN: Final = frozenset(
    (METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR, _PREFIX + "scale-down-tolerance", _PREFIX + "scale-up-tolerance")
)


def to_v1(autoscaler: v2.HorizontalPodAutoscaler) -> v1.HorizontalPodAutoscaler:
    """Convert a v2 autoscaler to v1."""
    spec, status = autoscaler.spec, autoscaler.status
    carried: dict[str, str] = {}
    others = [metric for metric in spec.metrics if not _is_cpu_target(metric)]
    if others:
        carried[METRICS] = _written([spelled.metric_to_annotation(metric) for metric in others])
    if status.current_metrics:
        carried[CURRENT_METRICS] = _written(
            [spelled.metric_status_to_annotation(metric) for metric in status.current_metrics]
        )
    if spec.behavior is not None:
        carried[BEHAVIOR] = _written(spelled.behavior_to_annotation(spec.behavior))
    if status.conditions:
        carried[CONDITIONS] = _written([spelled.condition_to_annotation(condition) for condition in status.conditions])
    return v1.HorizontalPodAutoscaler(
        metadata=_with_annotations(autoscaler.metadata, carried),
        spec=v1.HorizontalPodAutoscalerSpec(
            scale_target_ref=_reference(spec.scale_target_ref, v1.CrossVersionObjectReference),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            target_cpu_utilization_percentage=_cpu_target(spec.metrics),
        ),
        status=v1.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_cpu_utilization_percentage=_cpu_now(status.current_metrics or ()),
        ),
    )


def to_v2(autoscaler: v1.HorizontalPodAutoscaler) -> v2.HorizontalPodAutoscaler:
    """Convert a v1 autoscaler to v2, with v2's defaults for fields that the annotations lack."""
    spec, status = autoscaler.spec, autoscaler.status
    annotations = autoscaler.metadata.annotations
    metrics = _cpu_metrics(spec.target_cpu_utilization_percentage)
    others = _read(annotations, METRICS, list[old.Metric])
    behavior = _read(annotations, BEHAVIOR, old.Behavior)
    measured = _read(annotations, CURRENT_METRICS, list[old.MetricStatus])
    conditions = _read(annotations, CONDITIONS, list[old.AutoscalerCondition])
    made = v2.HorizontalPodAutoscaler(
        metadata=without_v1_annotations(autoscaler.metadata),
        spec=v2.HorizontalPodAutoscalerSpec(
            scale_target_ref=_reference(spec.scale_target_ref, v2.CrossVersionObjectReference),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            metrics=(*(spelled.metric_from_annotation(metric) for metric in others or ()), *metrics),
            behavior=None
            if behavior is None or behavior == old.Behavior()
            else spelled.behavior_from_annotation(behavior),
        ),
        status=v2.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_metrics=_cpu_measured(status.current_cpu_utilization_percentage)
            if measured is None
            else tuple(spelled.metric_status_from_annotation(metric) for metric in measured),
            conditions=tuple(spelled.condition_from_annotation(condition) for condition in conditions or ()),
        ),
    )
    apply_defaults(made)
    return made


def _is_cpu_target(metric: v2.MetricSpec) -> bool:
    """Return True if v1 has a field for this metric."""
    resource = metric.resource
    if metric.type != "Resource" or resource is None or resource.name != "cpu":
        return False
    return resource.target.average_utilization is not None


def _cpu_target(metrics: Sequence[v2.MetricSpec]) -> int | None:
    found = next((metric.resource for metric in metrics if _is_cpu_target(metric)), None)
    return found.target.average_utilization if found else None


def _cpu_now(metrics: Sequence[v2.MetricStatus]) -> int | None:
    """Return the last measured CPU utilization."""
    found = [
        metric.resource.current.average_utilization
        for metric in metrics
        if metric.type == "Resource" and metric.resource is not None and metric.resource.name == "cpu"
    ]
    return next((one for one in reversed(found) if one is not None), None)


def _cpu_metrics(percentage: int | None) -> tuple[v2.MetricSpec, ...]:
    if percentage is None:
        return ()
    target = v2.MetricTarget(type="Utilization", average_utilization=percentage)
    return (v2.MetricSpec(type="Resource", resource=v2.ResourceMetricSource(name="cpu", target=target)),)


def _cpu_measured(percentage: int | None) -> tuple[v2.MetricStatus, ...]:
    if percentage is None:
        return ()
    current = v2.MetricValueStatus(average_utilization=percentage)
    return (v2.MetricStatus(type="Resource", resource=v2.ResourceMetricStatus(name="cpu", current=current)),)


def _reference(reference: Any, kind: Callable[..., T]) -> T:
    return kind(kind=reference.kind, name=reference.name, api_version=reference.api_version)


def without_v1_annotations(metadata: ObjectMeta) -> ObjectMeta:
    """Return metadata without the annotations that carry fields, which have no meaning in v2."""
    return _with_annotations(metadata, {})


def _with_annotations(metadata: ObjectMeta, carried: Mapping[str, str]) -> ObjectMeta:
    """Return metadata with these carrier annotations and no others of them."""
    annotations = metadata.annotations
    if not carried and not _OWN.intersection(annotations):
        return metadata
    kept = {key: value for key, value in annotations.items() if key not in _OWN}
    return msgspec.structs.replace(metadata, annotations={**kept, **carried})


def _written(value: Any) -> str:
    """Encode JSON as Go does, which escapes HTML characters."""
    text = codec.encode(value).decode()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _read(annotations: Mapping[str, str], key: str, kind: type[T]) -> T | None:
    text = annotations.get(key)
    if text is None:
        return None
    try:
        return codec.decode(text.encode(), kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
