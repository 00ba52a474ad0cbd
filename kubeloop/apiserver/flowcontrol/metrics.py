# SPDX-License-Identifier: Apache-2.0
"""Metrics of priority and fairness, under upstream's names; computed on collection from the controller's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubeloop.apiserver.flowcontrol.controller import FlowController
from kubeloop.apiserver.flowcontrol.priority_level import PriorityLevel
from kubeloop.apiserver.flowcontrol.request_flow import DURATION_BOUNDS, WATCH_COUNT_BOUNDS, FlowSchemaCounters
from kubeloop.metrics import Histogram, MetricRegistry

_PREFIX: Final = "apiserver_flowcontrol_"
_OF_SCHEMA: Final = ("flow_schema", "priority_level")
_SEAT_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 100)

Counts = dict[tuple[str, ...], float]


def register_flowcontrol_metrics(registry: MetricRegistry, control: FlowController) -> None:
    """Register the metrics of a flow controller."""
    _register_levels(registry, control)
    _register_schemas(registry, control)
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
    gauge("demand_seats_average", lambda level: level.average_demand)
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
