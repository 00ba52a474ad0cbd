# SPDX-License-Identifier: Apache-2.0
"""Tests of the runtime's metrics, under upstream's names."""

from __future__ import annotations

from kubeloop.client.metrics import ClientMetrics
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.standard_metrics import (
    RestClientMetrics,
    register_leader_election_metrics,
    register_reconcile_metrics,
)


def test_metric_names_match_upstream() -> None:
    registry = MetricRegistry()
    register_reconcile_metrics(registry, "c", 5, lambda: 2)
    requests: ClientMetrics = RestClientMetrics(registry, "h")
    requests.request("GET", "200")
    requests.retry("GET", "429")
    requests.duration("GET", 0.1)
    requests.rate_limiter_wait("GET", 0.1)
    requests.sizes("POST", 100, 1000)
    register_leader_election_metrics(registry, "kube-controller-manager").is_leader.value = 1
    text = registry.render()
    for line in (
        'controller_runtime_max_concurrent_reconciles{controller="c"} 5',
        'controller_runtime_active_workers{controller="c"} 2',
        'controller_runtime_reconcile_total{controller="c",result="requeue_after"} 0',
        'rest_client_requests_total{code="200",host="h",method="GET"} 1',
        'rest_client_request_retries_total{code="429",host="h",verb="GET"} 1',
        'rest_client_request_duration_seconds_count{host="h",verb="GET"} 1',
        'rest_client_rate_limiter_duration_seconds_count{host="h",verb="GET"} 1',
        'rest_client_request_size_bytes_sum{host="h",verb="POST"} 100',
        'rest_client_response_size_bytes_sum{host="h",verb="POST"} 1000',
        'leader_election_master_status{name="kube-controller-manager"} 1',
    ):
        assert line in text.splitlines()
