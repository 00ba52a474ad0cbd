"""Prometheus' text format, under the names that upstream's dashboards know."""

from __future__ import annotations

import pytest

from kubeloop.client.metrics import ClientMetrics
from kubeloop.runtime.instruments import RestClientMetrics, register_leader_election_metrics, register_reconcile_metrics
from kubeloop.runtime.metrics import MetricRegistry, exponential_bounds


def test_counters_and_gauges_are_rendered_by_name_with_help_and_type() -> None:
    registry = MetricRegistry()
    registry.gauge("b", "A gauge.").of().value = 1.5
    counter = registry.counter("a_total", "A counter.", "who")
    counter.of("x").value += 2
    assert registry.render() == (
        "# HELP a_total A counter.\n"
        "# TYPE a_total counter\n"
        'a_total{who="x"} 2\n'
        "# HELP b A gauge.\n"
        "# TYPE b gauge\n"
        "b 1.5\n"
    )


def test_a_histogram_counts_up_to_each_bound_inclusive() -> None:
    registry = MetricRegistry()
    histogram = registry.histogram("h", "A histogram.", bounds=(0.5, 1, 10)).of()
    for value in (0.5, 0.6, 1, 99):
        histogram.observe(value)
    assert registry.render().splitlines()[2:] == [
        'h_bucket{le="0.5"} 1',
        'h_bucket{le="1"} 3',
        'h_bucket{le="10"} 3',
        'h_bucket{le="+Inf"} 4',
        "h_sum 101.1",
        "h_count 4",
    ]


def test_what_a_function_tells_is_read_when_somebody_asks() -> None:
    registry, depth = MetricRegistry(), [3]
    registry.gauge("depth", "Depth.", "name").read(lambda: depth[0], "q")
    depth[0] = 7
    assert 'depth{name="q"} 7\n' in registry.render()


def test_a_family_is_the_same_for_all_who_ask_and_can_lose_a_sample() -> None:
    registry = MetricRegistry()
    registry.counter("c", "", "name").of("a").value += 1
    family = registry.counter("c", "", "name")
    family.of("a").value += 1
    assert 'c{name="a"} 2\n' in registry.render()
    family.drop("a")
    assert registry.render() == ""


def test_labels_are_escaped_and_counted() -> None:
    registry = MetricRegistry()
    family = registry.gauge("g", "", "name")
    family.of('a"b\\c\nd').value = 1
    assert 'g{name="a\\"b\\\\c\\nd"} 1\n' in registry.render()
    with pytest.raises(ValueError, match="g has the labels"):
        family.of("a", "b")


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (2.0, "2"), (0.1, "0.1")],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    registry = MetricRegistry()
    registry.gauge("g", "").of().value = value
    assert registry.render().splitlines()[-1] == f"g {text}"


def test_bounds_grow_by_a_factor_with_upstreams_rounding() -> None:
    assert [repr(bound) for bound in exponential_bounds(10e-9, 10, 5)] == [
        "1e-08",
        "1e-07",
        "1e-06",
        "9.999999999999999e-06",
        "9.999999999999999e-05",
    ]


def test_all_names_are_upstreams() -> None:
    registry = MetricRegistry()
    register_reconcile_metrics(registry, "c", 5, lambda: 2)
    requests: ClientMetrics = RestClientMetrics(registry, "h")
    requests.request("GET", "200")
    requests.retry("GET", "429")
    requests.duration("GET", 0.1)
    requests.waited("GET", 0.1)
    requests.sizes("POST", 100, 1000)
    register_leader_election_metrics(registry, "kube-controller-manager").is_leader.value = 1
    text = registry.render()
    for line in (
        'controller_runtime_max_concurrent_reconciles{controller="c"} 5',
        'controller_runtime_active_workers{controller="c"} 2',
        'controller_runtime_reconcile_total{controller="c",result="requeue_after"} 0',
        'rest_client_requests_total{code="200",method="GET",host="h"} 1',
        'rest_client_request_retries_total{code="429",verb="GET",host="h"} 1',
        'rest_client_request_duration_seconds_count{verb="GET",host="h"} 1',
        'rest_client_rate_limiter_duration_seconds_count{verb="GET",host="h"} 1',
        'rest_client_request_size_bytes_sum{verb="POST",host="h"} 100',
        'rest_client_response_size_bytes_sum{verb="POST",host="h"} 1000',
        'leader_election_master_status{name="kube-controller-manager"} 1',
    ):
        assert line in text.splitlines()
