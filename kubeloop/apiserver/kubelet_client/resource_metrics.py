# SPDX-License-Identifier: Apache-2.0
"""Parser of /metrics/resource, and usage between two scrapes. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kubeloop.api.pods.usage import ResourceUsage

_LINE: Final = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)(?: (?P<millis>\d+))?")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_CPU: Final = "cpu_usage_seconds_total"
_MEMORY: Final = "memory_working_set_bytes"
_STARTED: Final = "start_time_seconds"
_GIGA: Final = 10**9
NODE: Final = ("", "", "")

MetricOwner = tuple[str, str, str]  # namespace, pod and container; all empty for the node


@dataclass(slots=True)
class MetricsPoint:
    """Values of one node or container; times in seconds since the epoch."""

    cpu_seconds: float | None = None
    memory_bytes: float | None = None
    at: float = 0.0
    started: float | None = None


@dataclass(slots=True)
class MetricsBatch:
    """Result of one scrape."""

    at: float
    points_by_owner: dict[MetricOwner, MetricsPoint] = field(default_factory=dict)


class MetricSample(NamedTuple):
    """Parsed line of Prometheus text."""

    name: str
    owner: MetricOwner
    value: float
    at: float | None


def parse_scrape(text: str, at: float) -> MetricsBatch:
    """Parse a scrape made at this time; unknown metrics are ignored."""
    telling = MetricsBatch(at)
    for sample in _samples(text):
        kind, _, what = sample.name.partition("_")
        if kind not in ("node", "container") or (kind == "node") != (sample.owner == NODE):
            continue
        point = telling.points_by_owner.setdefault(sample.owner, MetricsPoint(at=at))
        if what == _CPU:
            point.cpu_seconds, point.at = sample.value, at if sample.at is None else sample.at
        elif what == _MEMORY:
            point.memory_bytes = sample.value
        elif what == _STARTED:
            point.started = sample.value
    return telling


def usage_between(before: MetricsBatch | None, now: MetricsBatch, whose: MetricOwner) -> ResourceUsage | None:
    """Return the usage between two scrapes; None if it cannot be computed yet."""
    point = now.points_by_owner.get(whose)
    if point is None or point.cpu_seconds is None or point.memory_bytes is None:
        return None
    last = before.points_by_owner.get(whose) if before is not None else None
    if last is None or last.cpu_seconds is None or last.cpu_seconds > point.cpu_seconds or last.at >= point.at:
        # A new container has used everything since its start.
        if point.started is None or (before is not None and point.started < before.at) or point.started >= point.at:
            return None
        last = MetricsPoint(0.0, at=point.started)
    rate = (point.cpu_seconds - (last.cpu_seconds or 0.0)) / (point.at - last.at)
    return ResourceUsage(round(rate * _GIGA), int(point.memory_bytes))


def containers_of(telling: MetricsBatch) -> Mapping[tuple[str, str], list[str]]:
    """Return the containers of a scrape, by namespace and pod."""
    found: dict[tuple[str, str], list[str]] = {}
    for namespace, pod, container in telling.points_by_owner:
        if container:
            found.setdefault((namespace, pod), []).append(container)
    return found


def _samples(text: str) -> Iterator[MetricSample]:
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found is None:
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        labels = dict(_LABEL.findall(found["labels"] or ""))
        whose = labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", "")
        yield MetricSample(found["name"], whose, value, int(found["millis"]) / 1000 if found["millis"] else None)
