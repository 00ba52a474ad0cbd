"""Counters, gauges and histograms as Prometheus reads them."""

from __future__ import annotations

from kubeloop.apiserver.measures import CounterFamily, GaugeFamily, HistogramFamily, exponential_buckets


def test_a_family_that_nobody_touched_is_not_shown() -> None:
    assert [*CounterFamily("c", "a").lines(), *GaugeFamily("g").lines(), *HistogramFamily("h", (1,)).lines()] == []


def test_counters_are_told_apart_by_their_labels() -> None:
    counters = CounterFamily("c", "a", "b")
    counters.add("x", "y")
    counters.add("x", "y", amount=2)
    counters.add("x", 'say "no"\n')
    assert list(counters.lines()) == ["# TYPE c counter", 'c{a="x",b="y"} 3', 'c{a="x",b="say \\"no\\"\\n"} 1']


def test_gauges_show_what_is_now() -> None:
    gauges = GaugeFamily("g", "a")
    gauges.set(1, "x")
    gauges.set(2, "x")
    gauges.set(3, "y")
    gauges.remove("y")
    assert list(gauges.lines()) == ["# TYPE g gauge", 'g{a="x"} 2']


def test_histograms_count_what_is_no_longer_than_each_bound() -> None:
    histograms = HistogramFamily("h", (0.1, 1), "a")
    for seconds in (0.1, 0.5, 4.0):
        histograms.observe(seconds, "x")
    assert list(histograms.lines()) == [
        "# TYPE h histogram",
        'h_bucket{a="x",le="0.1"} 1',
        'h_bucket{a="x",le="1"} 2',
        'h_bucket{a="x",le="+Inf"} 3',
        'h_sum{a="x"} 4.6',
        'h_count{a="x"} 3',
    ]


def test_bounds_may_grow_by_a_factor() -> None:
    assert exponential_buckets(0.5, 2, 3) == (0.5, 1.0, 2.0)
