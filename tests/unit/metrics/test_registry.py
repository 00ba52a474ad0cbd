# SPDX-License-Identifier: Apache-2.0
"""The registry in Prometheus' text format."""

from __future__ import annotations

import pytest

from kubeloop.metrics import MetricRegistry, exponential_bounds


def test_counters_and_gauges_are_rendered_by_name_with_help_and_type() -> None:
    registry = MetricRegistry()
    registry.gauge("b", about="A gauge.").with_labels().value = 1.5
    counter = registry.counter("a_total", "who", about="A counter.")
    counter.with_labels("x").value += 2
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
    histogram = registry.histogram("h", bounds=(0.5, 1, 10)).with_labels()
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


def test_function_value_is_evaluated_on_render() -> None:
    registry, depth = MetricRegistry(), [3]
    registry.gauge("depth", "name").set_function(lambda: depth[0], "q")
    depth[0] = 7
    assert 'depth{name="q"} 7\n' in registry.render()


def test_family_is_shared_and_samples_can_be_removed() -> None:
    registry = MetricRegistry()
    registry.counter("c", "name").with_labels("a").value += 1
    family = registry.counter("c", "name")
    family.with_labels("a").value += 1
    assert 'c{name="a"} 2\n' in registry.render()
    family.drop("a")
    assert registry.render() == ""


def test_labels_and_help_are_escaped_and_labels_counted() -> None:
    registry = MetricRegistry()
    family = registry.gauge("g", "name", about='A "gauge"\\\nof two lines')
    family.with_labels('a"b\\c\nd').value = 1
    assert registry.render() == ('# HELP g A "gauge"\\\\\\nof two lines\n# TYPE g gauge\ng{name="a\\"b\\\\c\\nd"} 1\n')
    with pytest.raises(ValueError, match="g has the labels"):
        family.with_labels("a", "b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (2.0, "2"),
        (0.1, "0.1"),
        (1e6, "1e+06"),
        (1234567, "1.234567e+06"),
        (-2.5e21, "-2.5e+21"),
        (999999.5, "999999.5"),
        (1e-08, "1e-08"),
    ],
)
def test_numbers_have_prometheus_format(value: float, text: str) -> None:
    registry = MetricRegistry()
    registry.gauge("g").with_labels().value = value
    assert registry.render().splitlines()[-1] == f"g {text}"


def test_exponential_bounds_match_upstream() -> None:
    assert [repr(bound) for bound in exponential_bounds(10e-9, 10, 5)] == [
        "1e-08",
        "1e-07",
        "1e-06",
        "9.999999999999999e-06",
        "9.999999999999999e-05",
    ]
