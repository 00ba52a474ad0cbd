# SPDX-License-Identifier: Apache-2.0
"""Metrics of priority and fairness, under upstream's names; computed on collection from the controller's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kubeloop.apiserver.flowcontrol.controller import FlowController
from kubeloop.apiserver.flowcontrol.priority_level import PriorityLevel
from kubeloop.apiserver.flowcontrol.request_flow import DURATION_BOUNDS, WATCH_COUNT_BOUNDS, FlowSchemaCounters
from kubeloop.apiserver.flowcontrol.timing_histogram import (
    DEMAND_BOUNDS,
    READ_WRITE_BOUNDS,
    REQUEST_BOUNDS,
    SEAT_BOUNDS,
)
from kubeloop.apiserver.metrics.filters import FilterMetrics, with_idle
from kubeloop.metrics import Histogram, MetricRegistry

_PREFIX: Final = "apiserver_flowcontrol_"
_OF_SCHEMA: Final = ("flow_schema", "priority_level")
_SEAT_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 100)

_OF_LEVEL: Final = ("phase", "priority_level")
_OF_KIND: Final = ("phase", "request_kind")

Counts = dict[tuple[str, ...], float]
Histograms = dict[tuple[str, ...], Histogram]


def register_flowcontrol_metrics(registry: MetricRegistry, control: FlowController, filters: FilterMetrics) -> None:
    """Register the metrics of a flow controller."""
    _register_levels(registry, control)
    _register_schemas(registry, control)
    _register_timing_histograms(registry, control)
    filters.add_source(
        lambda: {
            "priorityandfairness": with_idle(
                control.filter_waits, sum(one.dispatched for one in control.counts.values())
            )
        }
    )
    registry.gauge(f"{_PREFIX}seat_fair_frac").set_function(lambda: control.fair_fraction)
    marks = control.watermarks
    executing = registry.gauge("apiserver_current_inflight_requests", "request_kind")
    executing.set_function(lambda: marks.executing_reads.last_second, "readOnly")
    executing.set_function(lambda: marks.executing_writes.last_second, "mutating")
    queued = registry.gauge("apiserver_current_inqueue_requests", "request_kind")
    queued.set_function(lambda: marks.queued_reads.last_second, "readOnly")
    queued.set_function(lambda: marks.queued_writes.last_second, "mutating")


def _register_levels(registry: MetricRegistry, control: FlowController) -> None:
    def gauge(name: str, value_of: Callable[[PriorityLevel], float]) -> None:
        registry.gauge(f"{_PREFIX}{name}", "priority_level").set_collector(
            lambda: {(name,): value_of(level) for name, level in control.levels.items()}
        )

    gauge("nominal_limit_seats", lambda level: level.bounds.nominal)
    gauge("lower_limit_seats", lambda level: level.bounds.lower)
    gauge("upper_limit_seats", lambda level: level.bounds.upper)
    gauge("current_limit_seats", lambda level: level.limit)
    gauge("demand_seats_high_watermark", lambda level: level.last_demand.peak)
    gauge("demand_seats_smoothed", lambda level: level.last_demand.smoothed)
    gauge("demand_seats_average", lambda level: level.demand_statistics.average)
    gauge("demand_seats_stdev", lambda level: level.demand_statistics.deviation)
    gauge("target_seats", lambda level: level.target)
    gauge("current_r", lambda level: level.progress)


def _register_schemas(registry: MetricRegistry, control: FlowController) -> None:
    def values(value_of: Callable[[FlowSchemaCounters], float]) -> Callable[[], Counts]:
        return lambda: {names: value_of(counts) for names, counts in control.counts.items()}

    gauge, counter = registry.gauge, registry.counter
    gauge(f"{_PREFIX}current_executing_requests", *_OF_SCHEMA).set_collector(values(lambda one: len(one.executing)))
    gauge(f"{_PREFIX}current_executing_seats", *_OF_SCHEMA).set_collector(values(lambda one: len(one.executing)))
    gauge(f"{_PREFIX}current_inqueue_requests", *_OF_SCHEMA).set_collector(values(lambda one: one.waiting))
    gauge(f"{_PREFIX}current_inqueue_seats", *_OF_SCHEMA).set_collector(values(lambda one: one.waiting))
    counter(f"{_PREFIX}dispatched_requests_total", *_OF_SCHEMA).set_collector(values(lambda one: one.dispatched))
    counter(f"{_PREFIX}rejected_requests_total", *_OF_SCHEMA, "reason").set_collector(
        lambda: {
            (*names, why): times for names, counts in control.counts.items() for why, times in counts.rejected.items()
        }
    )
    registry.histogram(f"{_PREFIX}work_estimated_seats", *_OF_SCHEMA, bounds=_SEAT_BOUNDS).set_collector(
        lambda: {names: _estimated_seats(one) for names, one in control.counts.items() if one.dispatched}
    )
    registry.histogram(
        f"{_PREFIX}request_execution_seconds", *_OF_SCHEMA, "type", bounds=DURATION_BOUNDS
    ).set_collector(
        lambda: {(*names, "regular"): one.executions() for names, one in control.counts.items() if one.executed}
    )
    registry.histogram(f"{_PREFIX}watch_count_samples", *_OF_SCHEMA, bounds=WATCH_COUNT_BOUNDS).set_collector(
        lambda: {names: one.watch_counts() for names, one in control.counts.items() if one.writes}
    )


def _register_timing_histograms(registry: MetricRegistry, control: FlowController) -> None:
    def fold() -> None:
        for level in control.levels.values():
            level.fold_usage()

    def seats() -> Histograms:
        return {("executing", name): level.usage.seats for name, level in control.levels.items()}

    def requests() -> Histograms:
        executing: Histograms = {("executing", name): one.usage.executing for name, one in control.levels.items()}
        return executing | {("waiting", name): level.usage.waiting for name, level in control.levels.items()}

    def demand() -> Histograms:
        return {(name,): level.usage.demand for name, level in control.levels.items()}

    registry.add_refresher(fold)
    families: tuple[tuple[str, tuple[str, ...], Sequence[float], Callable[[], Histograms]], ...] = (
        ("priority_level_seat_utilization", _OF_LEVEL, SEAT_BOUNDS, seats),
        ("priority_level_request_utilization", _OF_LEVEL, REQUEST_BOUNDS, requests),
        ("demand_seats", _OF_LEVEL[1:], DEMAND_BOUNDS, demand),
        ("read_vs_write_current_requests", _OF_KIND, READ_WRITE_BOUNDS, lambda: _by_request_kind(control)),
    )
    for name, labels, bounds, collect in families:
        registry.histogram(f"{_PREFIX}{name}", *labels, bounds=bounds).set_collector(collect)


def _by_request_kind(control: FlowController) -> Histograms:
    """Return the requests in execution and in queues over time, as shares of the limits of all levels."""
    marks, now = control.watermarks, control.monotonic()
    seats, places = control.nominal_seats, control.queue_capacity
    return {
        ("executing", "readOnly"): marks.executing_reads.histogram(seats, now),
        ("executing", "mutating"): marks.executing_writes.histogram(seats, now),
        ("waiting", "readOnly"): marks.queued_reads.histogram(places, now),
        ("waiting", "mutating"): marks.queued_writes.histogram(places, now),
    }


def _estimated_seats(counts: FlowSchemaCounters) -> Histogram:
    """Return the seats of all requests: those of lists that need several, and one of any other."""
    found = Histogram(_SEAT_BOUNDS)
    single = counts.dispatched - sum(counts.wide.values())
    found.counts[0] += single
    found.total += single
    for width, times in counts.wide.items():
        for _ in range(times):
            found.observe(width)
    return found
