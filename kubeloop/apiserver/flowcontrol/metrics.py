"""Metrics of priority and fairness, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kubeloop.apiserver.flowcontrol.controller import FlowController
from kubeloop.apiserver.metrics import format_family

Labels = tuple[tuple[str, str], ...]
Family = tuple[str, str, list[tuple[Labels, float]]]

_PREFIX = "apiserver_flowcontrol_"


def lines_of(control: FlowController) -> Iterator[str]:
    """Yield the metrics in Prometheus text format."""
    for found in chain(_of_levels(control), _of_schemas(control)):
        yield from format_family(*found)
    yield from control.waits.lines()


def _of_levels(control: FlowController) -> Iterator[Family]:
    levels = [((("priority_level", name),), one) for name, one in control.levels.items()]
    yield _gauge("nominal_limit_seats", [(labels, one.bounds.nominal) for labels, one in levels])
    yield _gauge("lower_limit_seats", [(labels, one.bounds.lower) for labels, one in levels])
    yield _gauge("upper_limit_seats", [(labels, one.bounds.upper) for labels, one in levels])
    yield _gauge("current_limit_seats", [(labels, one.limit) for labels, one in levels])
    yield _gauge("demand_seats_high_watermark", [(labels, one.most) for labels, one in levels])
    yield _gauge("demand_seats_smoothed", [(labels, one.usual) for labels, one in levels])


def _of_schemas(control: FlowController) -> Iterator[Family]:
    found = [
        ((("flow_schema", schema), ("priority_level", level)), counts)
        for (schema, level), counts in control.counts.items()
    ]
    yield _gauge("current_executing_requests", [(labels, one.executing) for labels, one in found])
    yield _gauge("current_executing_seats", [(labels, one.executing) for labels, one in found])
    yield _gauge("current_inqueue_requests", [(labels, one.waiting) for labels, one in found])
    yield _gauge("current_inqueue_seats", [(labels, one.waiting) for labels, one in found])
    yield _counter("dispatched_requests_total", [(labels, one.dispatched) for labels, one in found])
    rejected = [((*at, ("reason", why)), times) for at, one in found for why, times in one.rejected.items()]
    yield _counter("rejected_requests_total", [(labels, times) for labels, times in rejected])


def _gauge(name: str, samples: list[tuple[Labels, float]]) -> Family:
    return _PREFIX + name, "gauge", samples


def _counter(name: str, samples: list[tuple[Labels, float]]) -> Family:
    return _PREFIX + name, "counter", samples
