"""Metrics of the API server under upstream's names, in Prometheus text format."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kubeloop import KUBERNETES_VERSION
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.routing import Target
from kubeloop.http import Request

_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
Labels = tuple[tuple[str, str], ...]


class RequestDurationHistogram:
    """Duration histogram: counts by bucket, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Record a duration in seconds."""
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.total += seconds


class ApiServerMetrics:
    """Request counters of the API server, and gauges that are computed on each scrape."""

    def __init__(self, registry: StorageRegistry, writes: InFlightLimiter) -> None:
        self._registry = registry
        self._writes = writes
        self._by_kind: dict[tuple[str, str, str, str, str, str, int], int] = {}
        self._durations: dict[tuple[str, str, str, str, str, str], RequestDurationHistogram] = {}
        self._cut_watchers = 0
        self._others: list[Callable[[], Iterable[str]]] = []

    def also(self, lines: Callable[[], Iterable[str]]) -> None:
        """Add a source of further metric lines, from another component."""
        self._others.append(lines)

    def count_cut_watcher(self, _request: Request) -> None:
        """Count a watch that was closed because its client read too slowly."""
        self._cut_watchers += 1

    def observe(self, verb: str, target: Target | None, code: int, seconds: float) -> None:
        """Record a finished request: verb, target, status code and duration in seconds."""
        if target is None:
            kind = (verb.upper(), "", "", "", "", "")
        else:
            resource = target.resource
            kind = (
                _VERBS.get(verb, verb.upper()),
                resource.group,
                resource.version,
                resource.plural,
                target.subresource,
                _scope(target),
            )
        counted = (*kind, code)
        self._by_kind[counted] = self._by_kind.get(counted, 0) + 1
        found = self._durations.get(kind)
        if found is None:
            found = self._durations[kind] = RequestDurationHistogram()
        found.observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in Prometheus text format."""
        return ("\n".join(self._lines()) + "\n").encode()

    def _lines(self) -> Iterator[str]:
        yield from format_family("apiserver_request_total", "counter", self._request_samples())
        yield from format_family("apiserver_request_duration_seconds", "histogram", self._duration_samples())
        yield from format_family(
            "apiserver_current_inflight_requests",
            "gauge",
            [((("request_kind", "mutating"),), self._writes.executing), ((("request_kind", "readOnly"),), 0)],
        )
        yield from format_family(
            "apiserver_current_inqueue_requests", "gauge", [((("request_kind", "mutating"),), self._writes.waiting)]
        )
        yield from format_family("apiserver_longrunning_requests", "gauge", self._watch_samples())
        yield from format_family("apiserver_storage_objects", "gauge", self._object_samples())
        yield from format_family("apiserver_terminated_watchers_total", "counter", [((), self._cut_watchers)])
        for lines in self._others:
            yield from lines()
        yield from process_metric_lines()

    def _request_samples(self) -> Iterator[tuple[Labels, float]]:
        for (*kind, code), count in self._by_kind.items():
            yield (("code", str(code)), ("dry_run", ""), *_labels(tuple(kind))), count

    def _duration_samples(self) -> Iterator[tuple[Labels, RequestDurationHistogram]]:
        for kind, histogram in self._durations.items():
            yield (("dry_run", ""), *_labels(kind)), histogram

    def _watch_samples(self) -> Iterator[tuple[Labels, float]]:
        for storage in self._registry.storages():
            if storage.hub.watchers and storage.resource.stored_as is None:
                resource = storage.resource
                labels = ("WATCH", resource.group, resource.version, resource.plural, "", "")
                yield _labels(labels), storage.hub.watchers

    def _object_samples(self) -> Iterator[tuple[Labels, float]]:
        counted: set[str] = set()
        for storage in self._registry.storages():
            # All versions of a custom resource share the same stored objects.
            if storage.resource.stored_as is None and storage.resource.key_prefix not in counted:
                counted.add(storage.resource.key_prefix)
                found = self._registry.store.range(storage.resource.key_prefix, limit=1)
                yield (("resource", storage.resource.qualified),), len(found.records) + found.remaining


_VERBS = {"list": "LIST", "watch": "WATCH", "get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH"}
_BUILD: Labels = (
    ("git_version", f"v{KUBERNETES_VERSION}"),
    ("major", "1"),
    ("minor", KUBERNETES_VERSION.split(".")[1]),
)


def _scope(target: Target) -> str:
    if target.name:
        return "resource"
    return "namespace" if target.namespace else "cluster"


def _labels(kind: tuple[str, ...]) -> Labels:
    verb, group, version, resource, subresource, scope = kind
    return (
        ("component", "apiserver"),
        ("group", group),
        ("resource", resource),
        ("scope", scope),
        ("subresource", subresource),
        ("verb", verb),
        ("version", version),
    )


def format_family(
    name: str, kind: str, samples: Iterable[tuple[Labels, float | RequestDurationHistogram]]
) -> Iterator[str]:
    """Yield one metric family in Prometheus text format, one line per sample."""
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        if isinstance(value, RequestDurationHistogram):
            yield from _histogram(name, labels, value)
        else:
            yield f"{name}{_text(labels)} {value}"


def _histogram(name: str, labels: Labels, value: RequestDurationHistogram) -> Iterator[str]:
    running = 0
    for bound, count in zip((*_BUCKETS, "+Inf"), value.counts, strict=True):
        running += count
        yield f"{name}_bucket{_text((*labels, ('le', str(bound))))} {running}"
    yield f"{name}_sum{_text(labels)} {value.total}"
    yield f"{name}_count{_text(labels)} {running}"


def _text(labels: Labels) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels) + "}" if labels else ""


def process_metric_lines() -> Iterator[str]:
    """Yield build and process metrics, which are common to all programs."""
    import resource

    yield from format_family("kubernetes_build_info", "gauge", [(_BUILD, 1)])
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield from format_family("process_cpu_seconds_total", "counter", [((), used.ru_utime + used.ru_stime)])
    yield from format_family("process_resident_memory_bytes", "gauge", [((), _resident_bytes(used.ru_maxrss * 1024))])

    if (began := _process_start_time()) is not None:
        yield from format_family("process_start_time_seconds", "gauge", [((), began)])


def _process_start_time() -> float | None:
    """Return the process start time in seconds since 1970, or None if /proc does not have it."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def _resident_bytes(most: int) -> int:
    """Return the resident set size; falls back to the peak size if /proc does not have it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return most
    return pages * os.sysconf("SC_PAGE_SIZE")
