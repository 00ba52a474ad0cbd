# SPDX-License-Identifier: Apache-2.0
"""Computes the proposal of each metric, and its status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from kubeloop.api.generated import autoscaling_v2 as v2
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import LabelSelector as LabelSelectorObject
from kubeloop.api.meta.field_path import quote
from kubeloop.api.scalars.quantity import Quantity, QuantityFormat, parse_quantity
from kubeloop.api.scalars.wire import Quantity as WireQuantity
from kubeloop.api.selectors import EVERYTHING, LabelSelector, SelectorError, label_selector_as_selector
from kubeloop.controllers.horizontal_pod_autoscaler.metrics_client import MetricsClient, MetricsError, PodMetric
from kubeloop.controllers.horizontal_pod_autoscaler.replica_calculator import (
    PodStartupDelays,
    PodUsage,
    ReplicaProposal,
    Tolerances,
    group_pods,
    replicas_by_average,
    replicas_by_utilization,
    replicas_by_value,
    replicas_by_value_per_pod,
    requests_of,
)

NO_PODS = "no pods returned by selector while calculating replica count"
_UNKNOWN_TYPE = "InvalidMetricSourceType"


class MetricProposal(NamedTuple):
    """Number of replicas that a metric requires."""

    replicas: int
    name: str  # of the metric, for messages
    status: v2.MetricStatus


class MetricError(Exception):
    """Raised if a metric yields no proposal. The reason and `told` go into an event and a condition."""

    def __init__(self, reason: str, told: object, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.cause = str(told)
        self.fault = "spec" if reason == _UNKNOWN_TYPE else "internal"  # metric label


class ProposalInputs(NamedTuple):
    """Inputs of a proposal other than metrics."""

    namespace: str
    spec_replicas: int  # replicas in the target's spec
    status_replicas: int  # replicas in the target's status
    selector: LabelSelector
    pods: Sequence[Pod]
    tolerances: Tolerances
    now: datetime


class Proposer:
    """Computes proposals from metrics. Raises `MetricError`."""

    def __init__(self, metrics: MetricsClient, patience: PodStartupDelays) -> None:
        self._metrics = metrics
        self._patience = patience

    async def propose(self, spec: v2.MetricSpec, at: ProposalInputs) -> MetricProposal:
        """Compute the proposal of one metric."""
        source = _source_of(spec)
        if isinstance(source, v2.ResourceMetricSource):
            return await self._resource(source, at)
        if isinstance(source, v2.ContainerResourceMetricSource):
            return await self._container_resource(source, at)
        if isinstance(source, v2.PodsMetricSource):
            return await self._pods(source, at)
        if isinstance(source, v2.ObjectMetricSource):
            return await self._object(source, at)
        if isinstance(source, v2.ExternalMetricSource):
            return await self._external(source, at)
        unknown = f"unknown metric source type {quote(spec.type)}"
        raise MetricError(_UNKNOWN_TYPE, unknown, unknown)

    # Resources

    async def _resource(self, source: v2.ResourceMetricSource, at: ProposalInputs) -> MetricProposal:
        name = source.name
        try:
            found, current = await self._by_resource(name, "", source.target, at)
        except MetricsError as error:
            message = f"failed to get {name} resource metric value: {error}"
            raise MetricError("FailedGetResourceMetric", error, message) from error
        status = v2.MetricStatus(type="Resource", resource=v2.ResourceMetricStatus(name=name, current=current))
        return MetricProposal(found.replicas, _resource_words(name, found, ""), status)

    async def _container_resource(self, source: v2.ContainerResourceMetricSource, at: ProposalInputs) -> MetricProposal:
        name, container = source.name, source.container
        try:
            found, current = await self._by_resource(name, container, source.target, at)
        except MetricsError as error:
            message = f"failed to get {container} container metric value: {error}"
            raise MetricError("FailedGetContainerResourceMetric", error, message) from error
        told = v2.ContainerResourceMetricStatus(name=name, container=container, current=current)
        status = v2.MetricStatus(type="ContainerResource", container_resource=told)
        return MetricProposal(found.replicas, _resource_words(name, found, "container "), status)

    async def _by_resource(
        self, name: str, container: str, target: v2.MetricTarget, at: ProposalInputs
    ) -> tuple[ReplicaProposal, v2.MetricValueStatus]:
        if target.average_value is None and target.average_utilization is None:
            neither = "neither an average utilization target nor an average value (usage) target was set"
            raise MetricsError(f"invalid resource metric source: {neither}")
        try:
            found = await self._resource_proposal(name, container, target, at)
        except MetricsError as error:
            kind = "utilization" if target.average_value is None else "usage"
            raise MetricsError(f"failed to get {name} {kind}: {error}") from error
        spelling = QuantityFormat.BINARY_SI if name == "memory" else QuantityFormat.DECIMAL_SI
        average = _wire(found.usage, spelling)
        return found, v2.MetricValueStatus(average_utilization=found.utilization, average_value=average)

    async def _resource_proposal(
        self, name: str, container: str, target: v2.MetricTarget, at: ProposalInputs
    ) -> ReplicaProposal:
        try:
            metrics = await self._metrics.get_resource_metric(name, at.namespace, at.selector, container)
        except MetricsError as error:
            raise MetricsError(f"unable to get metrics for resource {name}: {error}") from error
        counted = self._counted(metrics, name, at)
        if target.average_value is not None:
            return replicas_by_average(at.spec_replicas, _milli(target.average_value), at.tolerances, counted)
        counted.usage_by_pod()  # missing metrics are reported before missing requests
        requests = requests_of(at.pods, name, container)
        return replicas_by_utilization(
            at.spec_replicas, target.average_utilization or 0, at.tolerances, counted, requests
        )

    def _counted(self, metrics: dict[str, PodMetric], resource: str, at: ProposalInputs) -> PodUsage:
        if not at.pods:
            raise MetricsError(NO_PODS)
        return PodUsage(metrics, group_pods(at.pods, metrics, resource, self._patience, at.now))

    # Others

    async def _pods(self, source: v2.PodsMetricSource, at: ProposalInputs) -> MetricProposal:
        name = source.metric.name
        try:
            found = await self._pods_proposal(source, at)
        except (MetricsError, SelectorError) as error:
            message = f"failed to get pods metric value: {error}"
            raise MetricError("FailedGetPodsMetric", error, message) from error
        current = v2.MetricValueStatus(average_value=_wire(found.usage))
        status = v2.MetricStatus(type="Pods", pods=v2.PodsMetricStatus(metric=source.metric, current=current))
        return MetricProposal(found.replicas, f"pods metric {name}", status)

    async def _pods_proposal(self, source: v2.PodsMetricSource, at: ProposalInputs) -> ReplicaProposal:
        chosen = _metric_selector(source.metric.selector)
        try:
            metrics = await self._metrics.get_raw_metric(source.metric.name, at.namespace, at.selector, chosen)
        except MetricsError as error:
            raise MetricsError(f"unable to get metric {source.metric.name}: {error}") from error
        target = _milli(source.target.average_value or WireQuantity("0"))
        return replicas_by_average(at.spec_replicas, target, at.tolerances, self._counted(metrics, "", at))

    async def _object(self, source: v2.ObjectMetricSource, at: ProposalInputs) -> MetricProposal:
        name, target = source.metric.name, source.target
        try:
            if target.type == "Value" and target.value is not None:
                usage = await self._object_value(source, at)
                found = replicas_by_value(at.spec_replicas, usage, _milli(target.value), at.tolerances, at.pods)
                current = v2.MetricValueStatus(value=_wire(found.usage))
                words = f"{source.described_object.kind} metric {name}"
            elif target.type == "AverageValue" and target.average_value is not None:
                usage = await self._object_value(source, at)
                found = replicas_by_value_per_pod(
                    at.status_replicas, usage, _milli(target.average_value), at.tolerances
                )
                current = v2.MetricValueStatus(average_value=_wire(found.usage))
                words = _external_words(source.metric)
            else:
                neither = "neither a value target nor an average value target was set"
                raise MetricsError(f"invalid object metric source: {neither}")
        except (MetricsError, SelectorError) as error:
            detail = f"failed to get {name} object metric: {error}" if target.type == "AverageValue" else str(error)
            message = f"failed to get object metric value: {detail}"
            raise MetricError("FailedGetObjectMetric", error, message) from error
        told = v2.ObjectMetricStatus(metric=source.metric, described_object=source.described_object, current=current)
        return MetricProposal(found.replicas, words, v2.MetricStatus(type="Object", object=told))

    async def _object_value(self, source: v2.ObjectMetricSource, at: ProposalInputs) -> int:
        about, name = source.described_object, source.metric.name
        chosen = _metric_selector(source.metric.selector)
        try:
            return await self._metrics.get_object_metric(name, at.namespace, about, chosen)
        except MetricsError as error:
            where = f"{about.kind} {at.namespace}/{about.name}"
            raise MetricsError(f"unable to get metric {name} on {where}: {error}") from error

    async def _external(self, source: v2.ExternalMetricSource, at: ProposalInputs) -> MetricProposal:
        name, target = source.metric.name, source.target
        is_average = target.average_value is not None
        try:
            if target.average_value is None and target.value is None:
                neither = "neither a value target nor an average value target was set"
                raise MetricsError(f"invalid external metric source: {neither}")
            usage = await self._external_value(source, at)
            if target.average_value is not None:
                found = replicas_by_value_per_pod(
                    at.status_replicas, usage, _milli(target.average_value), at.tolerances
                )
                current = v2.MetricValueStatus(average_value=_wire(found.usage))
            else:
                wanted = _milli(target.value or WireQuantity("0"))
                found = replicas_by_value(at.spec_replicas, usage, wanted, at.tolerances, at.pods)
                current = v2.MetricValueStatus(value=_wire(found.usage))
        except (MetricsError, SelectorError) as error:
            detail = f"failed to get {name} external metric" if is_average else f"failed to get external metric {name}"
            if not is_average and target.value is None:
                message = f"failed to get {name} external metric value: {error}"
            else:
                message = f"failed to get {name} external metric value: {detail}: {error}"
            raise MetricError("FailedGetExternalMetric", error, message) from error
        told = v2.ExternalMetricStatus(metric=source.metric, current=current)
        return MetricProposal(
            found.replicas, _external_words(source.metric), v2.MetricStatus(type="External", external=told)
        )

    async def _external_value(self, source: v2.ExternalMetricSource, at: ProposalInputs) -> int:
        metric = source.metric
        try:
            return sum(
                await self._metrics.get_external_metric(metric.name, at.namespace, _metric_selector(metric.selector))
            )
        except MetricsError as error:
            what = f"{at.namespace}/{metric.name}/{selector_words(metric.selector)}"
            raise MetricsError(f"unable to get external metric {what}: {error}") from error


def largest_proposal(proposals: Iterable[MetricProposal]) -> MetricProposal | None:
    """Return the first of the largest proposals; if all are zero, the last one."""
    best: MetricProposal | None = None
    for one in proposals:
        if best is None or best.replicas == 0 or one.replicas > best.replicas:
            best = one
    return best


def _source_of(spec: v2.MetricSpec) -> object:
    """Return the source that matches the metric's type."""
    sources = {
        "Resource": spec.resource,
        "ContainerResource": spec.container_resource,
        "Pods": spec.pods,
        "Object": spec.object,
        "External": spec.external,
    }
    return sources.get(spec.type)


def _metric_selector(selector: LabelSelectorObject | None) -> LabelSelector:
    return EVERYTHING if selector is None else label_selector_as_selector(selector)


def _milli(amount: WireQuantity) -> int:
    return parse_quantity(str(amount)).milli_value()


def _wire(milli: int, spelling: QuantityFormat = QuantityFormat.DECIMAL_SI) -> WireQuantity:
    return WireQuantity(str(Quantity.of_milli(milli, spelling)))


def _resource_words(name: str, found: ReplicaProposal, container: str) -> str:
    if found.utilization is None:
        return f"{name} resource"
    return f"{name} {container}resource utilization (percentage of request)"


def _external_words(metric: v2.MetricIdentifier) -> str:
    return f"external metric {metric.name}({selector_words(metric.selector)})"


def selector_words(selector: LabelSelectorObject | None) -> str:
    """Format a selector as in upstream's messages."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.key},Operator:{one.operator},Values:[{' '.join(one.values)}],}},"
        for one in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
