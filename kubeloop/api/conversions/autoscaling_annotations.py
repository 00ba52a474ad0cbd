# SPDX-License-Identifier: Apache-2.0
"""JSON structures in the annotations of autoscaling/v1: an older form of autoscaling/v2's fields.

Field by field in upstream's order, because clients see the text of an annotation.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.scalars.wire import Quantity, Time, always_null

ZERO = Quantity("0")


def _zero() -> Quantity:
    """Return the default of a quantity that is always written."""
    return ZERO


class CrossVersionReference(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """CrossVersionObjectReference in an annotation."""

    kind: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    api_version: str = ""


class ObjectMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """ObjectMetricSource of a metric."""

    target: CrossVersionReference = msgspec.field(default_factory=CrossVersionReference)
    metric_name: str = msgspec.field(default_factory=str)
    target_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None
    average_value: Quantity | None = None


class PodsMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """PodsMetricSource of a metric."""

    metric_name: str = msgspec.field(default_factory=str)
    target_average_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None


class ResourceMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """ResourceMetricSource of a metric."""

    name: str = msgspec.field(default_factory=str)
    target_average_utilization: int | None = None
    target_average_value: Quantity | None = None


class ContainerResourceMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """ContainerResourceMetricSource of a metric."""

    name: str = msgspec.field(default_factory=str)
    target_average_utilization: int | None = None
    target_average_value: Quantity | None = None
    container: str = msgspec.field(default_factory=str)


class ExternalMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """ExternalMetricSource of a metric."""

    metric_name: str = msgspec.field(default_factory=str)
    metric_selector: LabelSelector | None = None
    target_value: Quantity | None = None
    target_average_value: Quantity | None = None


class Metric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Metric target of an autoscaler; one of the sources is set."""

    type: str = msgspec.field(default_factory=str)
    object: ObjectMetric | None = None
    pods: PodsMetric | None = None
    resource: ResourceMetric | None = None
    container_resource: ContainerResourceMetric | None = None
    external: ExternalMetric | None = None


class ObjectStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Status of an object metric."""

    target: CrossVersionReference = msgspec.field(default_factory=CrossVersionReference)
    metric_name: str = msgspec.field(default_factory=str)
    current_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None
    average_value: Quantity | None = None


class PodsStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Status of a pods metric."""

    metric_name: str = msgspec.field(default_factory=str)
    current_average_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None


class ResourceStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Status of a resource metric."""

    name: str = msgspec.field(default_factory=str)
    current_average_utilization: int | None = None
    current_average_value: Quantity = msgspec.field(default_factory=_zero)


class ContainerResourceStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Status of a container resource metric."""

    name: str = msgspec.field(default_factory=str)
    current_average_utilization: int | None = None
    current_average_value: Quantity = msgspec.field(default_factory=_zero)
    container: str = msgspec.field(default_factory=str)


class ExternalStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Status of an external metric."""

    metric_name: str = msgspec.field(default_factory=str)
    metric_selector: LabelSelector | None = None
    current_value: Quantity = msgspec.field(default_factory=_zero)
    current_average_value: Quantity | None = None


class MetricStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Last measured metric; one of the sources is set."""

    type: str = msgspec.field(default_factory=str)
    object: ObjectStatus | None = None
    pods: PodsStatus | None = None
    resource: ResourceStatus | None = None
    container_resource: ContainerResourceStatus | None = None
    external: ExternalStatus | None = None


class AutoscalerCondition(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Condition of an autoscaler."""

    type: str = msgspec.field(default_factory=str)
    status: str = msgspec.field(default_factory=str)
    last_transition_time: Time | None = msgspec.field(default_factory=always_null)
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None


class ScalingPolicy(Struct, frozen=True, rename="pascal"):
    """Scaling policy."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class ScalingRules(Struct, frozen=True, rename="pascal"):
    """Scaling rules of one direction."""

    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: tuple[ScalingPolicy, ...] | None = None
    tolerance: Quantity | None = None


class Behavior(Struct, frozen=True, rename="pascal"):
    """Scaling behavior."""

    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None
