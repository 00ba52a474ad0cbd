# SPDX-License-Identifier: Apache-2.0
"""Printers of autoscalers, whose targets column shows current and target values, and of scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, column, integer_column
from kubeloop.apiserver.response.tables.text import NONE, UNKNOWN, UNSET, format_age, format_quantity, format_shortened

if TYPE_CHECKING:
    from kubeloop.api.generated.autoscaling_v1 import HorizontalPodAutoscaler as HorizontalPodAutoscalerV1
    from kubeloop.api.generated.autoscaling_v1 import Scale
    from kubeloop.api.generated.autoscaling_v2 import (
        HorizontalPodAutoscaler,
        MetricSpec,
        MetricStatus,
        MetricTarget,
        MetricValueStatus,
    )

# Annotations in which version 1 keeps what its fields can't hold.
_METRICS_ANNOTATION = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT_ANNOTATION = "autoscaling.alpha.kubernetes.io/current-metrics"
_DEFAULT_CPU_PERCENT = 80
# Metric types, and the field that holds each one's source.
_FIELDS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "container_resource",
}


def _whole_target(target: MetricTarget, current: MetricValueStatus | None) -> str:
    """Return the target text of an object or external metric: its value, or its average over the pods."""
    if target.average_value is not None:
        measured = UNKNOWN if current is None or current.average_value is None else current.average_value
        return f"{measured}/{target.average_value} (avg)"
    measured = UNKNOWN if current is None else format_quantity(current.value)
    return f"{measured}/{format_quantity(target.value)}"


def _pods_target(target: MetricTarget, current: MetricValueStatus | None) -> str:
    measured = UNKNOWN if current is None else format_quantity(current.average_value)
    return f"{measured}/{format_quantity(target.average_value)}"


def _resource_target(name: str, target: MetricTarget, current: MetricValueStatus | None) -> str:
    if target.average_value is not None:
        return f"{name}: {_pods_target(target, current)}"
    wanted = "<auto>" if target.average_utilization is None else f"{target.average_utilization}%"
    if current is None or current.average_utilization is None:
        return f"{name}: {UNKNOWN}/{wanted}"
    return f"{name}: {current.average_utilization}%/{wanted}"


def _metric(spec: MetricSpec, status: MetricStatus | None) -> str:
    field = _FIELDS.get(spec.type)
    source = getattr(spec, field) if field else None
    if field is None or source is None:
        return "<unknown type>"
    measured = getattr(status, field) if status else None
    current = measured.current if measured else None
    if field in ("resource", "container_resource"):
        return _resource_target(source.name, source.target, current)
    return (_pods_target if field == "pods" else _whole_target)(source.target, current)


def _targets(specs: Sequence[MetricSpec], statuses: Sequence[MetricStatus]) -> str:
    padded = [*statuses[: len(specs)], *[None] * (len(specs) - len(statuses))]
    metrics = [_metric(spec, status) for spec, status in zip(specs, padded, strict=True)]
    return format_shortened(metrics, 2, ", ") or NONE


def _annotated(annotations: Mapping[str, str], key: str) -> list[Any] | None:
    try:
        found = msgspec.json.decode(annotations.get(key, "null"))
    except msgspec.DecodeError:
        return None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else None


def _source_of_v1(source: Mapping[str, Any], values: str) -> dict[str, Any]:
    """Return an annotation's metric in the form of version 2; `values` is the field of its numbers."""
    prefix = "target" if values == "target" else "current"
    numbers = {
        "value": source.get(f"{prefix}Value"),
        "averageValue": source.get(f"{prefix}AverageValue", source.get("averageValue")),
        "averageUtilization": source.get(f"{prefix}AverageUtilization"),
    }
    return {"name": source.get("name", ""), values: {key: value for key, value in numbers.items() if value is not None}}


def _convert_to_v2(items: list[Any], values: str) -> list[dict[str, Any]]:
    upgraded = []
    for item in items:
        sources = {key: _source_of_v1(value, values) for key, value in item.items() if isinstance(value, dict)}
        upgraded.append({"type": item.get("type", ""), **sources})
    return upgraded


def _cpu(values: str, percent: int) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", values: {"averageUtilization": percent}}}


def _v1_targets(hpa: HorizontalPodAutoscalerV1) -> str:
    # The types are needed here only; printing other kinds does not import them.
    from kubeloop.api.codec import from_plain
    from kubeloop.api.generated.autoscaling_v2 import MetricSpec, MetricStatus

    annotations = hpa.metadata.annotations
    specs = _convert_to_v2(_annotated(annotations, _METRICS_ANNOTATION) or [], "target")
    percent = hpa.spec.target_cpu_utilization_percentage
    if percent is not None or not specs:
        specs.append(_cpu("target", _DEFAULT_CPU_PERCENT if percent is None else percent))
    annotated = _annotated(annotations, _CURRENT_ANNOTATION)
    measured = hpa.status.current_cpu_utilization_percentage
    if annotated is not None:
        statuses = _convert_to_v2(annotated, "current")
    else:
        statuses = [] if measured is None else [_cpu("current", measured)]
    try:
        return _targets(from_plain(specs, tuple[MetricSpec, ...]), from_plain(statuses, tuple[MetricStatus, ...]))
    except msgspec.ValidationError:
        return UNKNOWN


def _autoscaler_cells(hpa: HorizontalPodAutoscaler | HorizontalPodAutoscalerV1, now: datetime) -> Cells:
    spec = hpa.spec
    return [
        hpa.metadata.name,
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        _targets_of(hpa),
        UNSET if spec.min_replicas is None else str(spec.min_replicas),
        spec.max_replicas,
        hpa.status.current_replicas,
        format_age(hpa, now),
    ]


def _targets_of(hpa: Any) -> str:
    if hpa.api_version == "autoscaling/v1":
        return _v1_targets(hpa)
    return _targets(hpa.spec.metrics, hpa.status.current_metrics or ())


def _scale_cells(scale: Scale, now: datetime) -> Cells:
    return [scale.metadata.name, scale.spec.replicas, scale.status.replicas, format_age(scale, now)]


HORIZONTAL_POD_AUTOSCALER = Printer(
    columns=(
        NAME,
        column("Reference", "Object that is scaled."),
        column("Targets", "Current and target value of each metric."),
        column("MinPods", "Minimum number of replicas."),
        column("MaxPods", "Maximum number of replicas."),
        column("Replicas", "Current number of replicas."),
        AGE,
    ),
    cells=_autoscaler_cells,
)
SCALE = Printer(
    columns=(
        column("Name", "Name of the object that is scaled."),
        integer_column("Desired", "Desired number of replicas."),
        integer_column("Available", "Current number of replicas."),
        AGE,
    ),
    cells=_scale_cells,
)
