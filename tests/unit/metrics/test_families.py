# SPDX-License-Identifier: Apache-2.0
"""Families of metrics, and the lines they are written as."""

from __future__ import annotations

from kubeloop.metrics import Histogram, MetricDesc, MetricRegistry, Summary, family_lines, linear_bounds


def test_a_family_without_samples_is_not_written() -> None:
    registry = MetricRegistry()
    registry.counter("c", "a")
    registry.histogram("h", bounds=(1,))
    registry.summary("s")
    assert registry.render() == ""
    assert registry.names == {"c", "h", "s"}


def test_labels_are_sorted_by_name_and_samples_by_label_values() -> None:
    counters = MetricRegistry().counter("c", "verb", "code")
    counters.with_labels("PUT", "200").value += 1
    counters.with_labels("GET", "404").value += 2
    assert list(counters.lines())[2:] == ['c{code="404",verb="GET"} 2', 'c{code="200",verb="PUT"} 1']


def test_a_histogram_adds_counts_of_another() -> None:
    histograms = MetricRegistry().histogram("h", "a", bounds=(0.1, 1))
    one = histograms.with_labels("x")
    one.observe(0.5)
    one.add([2, 0, 1], 3.5)
    assert list(histograms.lines())[2:] == [
        'h_bucket{a="x",le="0.1"} 2',
        'h_bucket{a="x",le="1"} 3',
        'h_bucket{a="x",le="+Inf"} 4',
        'h_sum{a="x"} 4',
        'h_count{a="x"} 4',
    ]


def test_a_collector_returns_histograms_and_numbers() -> None:
    registry = MetricRegistry()
    registry.gauge("g", "a").set_collector(lambda: {("x",): 2.0})
    registry.histogram("h", bounds=(1,)).set_collector(lambda: {(): Histogram((1,))})
    assert 'g{a="x"} 2\n' in registry.render()
    assert "h_count 0\n" in registry.render()


def test_a_summary_has_the_quantiles_of_the_latest_values() -> None:
    summaries = MetricRegistry().summary("s", "a")
    one = summaries.with_labels("x")
    for value in range(1500):
        one.observe(value)
    assert list(summaries.lines())[1:] == [
        "# TYPE s summary",
        's{a="x",quantile="0.5"} 1000',
        's{a="x",quantile="0.9"} 1400',
        's{a="x",quantile="0.99"} 1490',
        's_sum{a="x"} 1.12425e+06',
        's_count{a="x"} 1500',
    ]
    assert str(Summary().values()) == "(nan, nan, nan)"


def test_the_help_text_is_upstreams_unless_another_is_given() -> None:
    registry = MetricRegistry()
    registry.gauge("workqueue_depth", "name").with_labels("q").value = 1
    registry.gauge("mine", about="Mine.").with_labels().value = 1
    lines = registry.render().splitlines()
    assert lines[0] == "# HELP mine Mine."
    assert lines[3] == "# HELP workqueue_depth [BETA] Current depth of workqueue"
    assert next(family_lines(MetricDesc("unknown", "gauge"), [])) == "# HELP unknown "


def test_linear_bounds_have_equal_distances() -> None:
    assert linear_bounds(50_000, 100_000, 3) == (50_000, 150_000, 250_000)
