# SPDX-License-Identifier: Apache-2.0
"""Label values of every producer of metrics are escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kubeloop.api.generated.core_v1 import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission.dynamic.expressions import MatchResult
from kubeloop.apiserver.admission.dynamic.metrics import AdmissionMetrics, MatchConditionLabels, WebhookCallLabels
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig, LazyAggregator
from kubeloop.apiserver.apiextensions.conversion.cache import ConversionMetrics
from kubeloop.apiserver.flowcontrol.metrics import register_flowcontrol_metrics
from kubeloop.apiserver.flowcontrol.request_flow import FlowSchemaCounters
from kubeloop.apiserver.flowcontrol.seat_allocation import SeatDemand
from kubeloop.apiserver.flowcontrol.timing_histogram import DemandStatistics, LevelUsage
from kubeloop.apiserver.flowcontrol.watermark import InFlightWatermarks
from kubeloop.apiserver.metrics.filters import FILTER_BOUNDS, AuthenticationMetrics
from kubeloop.apiserver.metrics.requests import RequestMetrics
from kubeloop.apiserver.request.context import RequestContext, User
from kubeloop.apiserver.request.negotiation import PLAIN
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response
from kubeloop.kubelet.agent_metrics import NodeAgentMetrics
from kubeloop.kubelet.runtime import ContainerUsage
from kubeloop.kubelet.server.stats import StatsProvider
from kubeloop.metrics import Histogram, MetricRegistry
from kubeloop.runtime.standard_metrics import RestClientMetrics
from kubeloop.store import Record

RAW = 'a"b\\c\nd'
ESCAPED = 'a\\"b\\\\c\\nd'


def fake(**attributes: Any) -> Any:
    """Stand in for an object of which only these attributes are read."""
    return SimpleNamespace(**attributes)


def of_registry() -> str:
    registry = MetricRegistry()
    RestClientMetrics(registry, RAW).duration("GET", 0.5)
    return registry.render()


def of_requests() -> str:
    registry = MetricRegistry()
    target = Target(RESOURCES[0], "get", subresource=RAW)
    ctx = RequestContext(Request("GET", "/"), target, Query(""), User("u"), PLAIN, SystemClock().now)
    RequestMetrics(registry, AuthenticationMetrics(registry), SystemClock()).observe(ctx, "get", Response(200), 0.5)
    return registry.render()


def of_flow_control() -> str:
    registry = MetricRegistry()
    counts = FlowSchemaCounters(lambda _seconds, _served: None, InFlightWatermarks(0.0))
    counts.rejected[RAW] = counts.dispatched = 1
    counts.observe(0.5)
    level = fake(bounds=fake(nominal=1, lower=1, upper=1), limit=1, last_demand=SeatDemand(1, 1.0))
    level.target = level.progress = 1
    level.demand_statistics, level.usage, level.fold_usage = DemandStatistics(1.0, 1.0), LevelUsage(), lambda: None
    control = fake(levels={RAW: level}, counts={(RAW, RAW): counts}, fair_fraction=1, monotonic=lambda: 1.0)
    control.watermarks, control.filter_waits = InFlightWatermarks(0.0), Histogram(FILTER_BOUNDS)
    control.nominal_seats = control.queue_capacity = 1
    register_flowcontrol_metrics(registry, control, fake(add_source=lambda _: None))
    return registry.render()


def of_admission() -> str:
    registry = MetricRegistry()
    metrics = AdmissionMetrics(registry)
    call = WebhookCallLabels(RAW, "admit", "CREATE")
    metrics.webhooks.observe_call(call, 200, 0.5, rejected=True)
    metrics.webhooks.count_rejection(call, "error", 400)
    metrics.webhooks.count_fail_open(RAW, "admit")
    metrics.conditions.observe(MatchConditionLabels(RAW, "webhook", "admit", "CREATE"), MatchResult(False, 1), 0.5)
    metrics.policies.observe_validation(RAW, RAW, "no_error", "deny", 0.5)
    metrics.policies.observe_mutation(RAW, RAW, "no_error", 0.5)
    return registry.render()


def of_conversion() -> str:
    registry = MetricRegistry()
    ConversionMetrics(registry).observe(RAW, 0.5)
    return registry.render()


def of_aggregator() -> str:
    record = Record(f"/registry/apiregistration.k8s.io/apiservices/{RAW}", b"{}", 1, 1)
    registry, metrics = fake(store=fake(range=lambda _: fake(records=[record]))), MetricRegistry()
    LazyAggregator(registry, SystemClock(), AggregatorConfig(), fake(), metrics)
    return metrics.render()


def of_kubelet(page: str) -> str:
    started = cast(Any, datetime(2026, 1, 1, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    running = ContainerState(running=ContainerStateRunning(started_at=started))
    status = PodStatus(container_statuses=(ContainerStatus(name=RAW, state=running),))
    pod = Pod(metadata=ObjectMeta(name=RAW, namespace=RAW, uid="1"), status=status)
    runtime = fake(usage=lambda _: {RAW: ContainerUsage(1, 1)})
    provider = StatsProvider(lambda _: [pod], runtime, SystemClock(), NodeAgentMetrics())
    text: str = getattr(provider, page)(RAW)
    return text


@pytest.mark.parametrize(
    "text",
    [
        of_registry,
        of_requests,
        of_flow_control,
        of_admission,
        of_conversion,
        of_aggregator,
        lambda: of_kubelet("kubelet_metrics"),
        lambda: of_kubelet("resource_metrics"),
        lambda: of_kubelet("container_metrics"),
    ],
)
def test_label_values_are_escaped(text: Any) -> None:
    rendered = text()
    assert f'="{ESCAPED}"' in rendered
    assert RAW not in rendered
