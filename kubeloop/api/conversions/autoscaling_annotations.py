"""The JSON in the annotations of autoscaling/v1: an older spelling of what autoscaling/v2 has fields for.

Field by field in upstream's order, because the text of an annotation is what clients see.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.scalars.wire import Quantity, Time, always_null

ZERO = Quantity("0")


def _zero() -> Quantity:
    """The default of an amount that is always written."""
    return ZERO


class Reference(Struct, frozen=True, omit_defaults=True, rename="camel"):
    kind: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    api_version: str = ""


class ObjectMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    target: Reference = msgspec.field(default_factory=Reference)
    metric_name: str = msgspec.field(default_factory=str)
    target_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None
    average_value: Quantity | None = None


class PodsMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    metric_name: str = msgspec.field(default_factory=str)
    target_average_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None


class ResourceMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    name: str = msgspec.field(default_factory=str)
    target_average_utilization: int | None = None
    target_average_value: Quantity | None = None


class ContainerResourceMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    name: str = msgspec.field(default_factory=str)
    target_average_utilization: int | None = None
    target_average_value: Quantity | None = None
    container: str = msgspec.field(default_factory=str)


class ExternalMetric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    metric_name: str = msgspec.field(default_factory=str)
    metric_selector: LabelSelector | None = None
    target_value: Quantity | None = None
    target_average_value: Quantity | None = None


class Metric(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What an autoscaler aims at; one of the sources is set."""

    type: str = msgspec.field(default_factory=str)
    object: ObjectMetric | None = None
    pods: PodsMetric | None = None
    resource: ResourceMetric | None = None
    container_resource: ContainerResourceMetric | None = None
    external: ExternalMetric | None = None


class ObjectStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    target: Reference = msgspec.field(default_factory=Reference)
    metric_name: str = msgspec.field(default_factory=str)
    current_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None
    average_value: Quantity | None = None


class PodsStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    metric_name: str = msgspec.field(default_factory=str)
    current_average_value: Quantity = msgspec.field(default_factory=_zero)
    selector: LabelSelector | None = None


class ResourceStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    name: str = msgspec.field(default_factory=str)
    current_average_utilization: int | None = None
    current_average_value: Quantity = msgspec.field(default_factory=_zero)


class ContainerResourceStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    name: str = msgspec.field(default_factory=str)
    current_average_utilization: int | None = None
    current_average_value: Quantity = msgspec.field(default_factory=_zero)
    container: str = msgspec.field(default_factory=str)


class ExternalStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    metric_name: str = msgspec.field(default_factory=str)
    metric_selector: LabelSelector | None = None
    current_value: Quantity = msgspec.field(default_factory=_zero)
    current_average_value: Quantity | None = None


class MetricStatus(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What was last measured; one of the sources is set."""

    type: str = msgspec.field(default_factory=str)
    object: ObjectStatus | None = None
    pods: PodsStatus | None = None
    resource: ResourceStatus | None = None
    container_resource: ContainerResourceStatus | None = None
    external: ExternalStatus | None = None


class Condition(Struct, frozen=True, omit_defaults=True, rename="camel"):
    type: str = msgspec.field(default_factory=str)
    status: str = msgspec.field(default_factory=str)
    last_transition_time: Time | None = msgspec.field(default_factory=always_null)
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None


class Policy(Struct, frozen=True, rename="pascal"):
    type: str = ""
    value: int = 0
    period_seconds: int = 0


class Rules(Struct, frozen=True, rename="pascal"):
    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: tuple[Policy, ...] | None = None
    tolerance: Quantity | None = None


class Behavior(Struct, frozen=True, rename="pascal"):
    scale_up: Rules | None = None
    scale_down: Rules | None = None
