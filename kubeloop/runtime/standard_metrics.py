# SPDX-License-Identifier: Apache-2.0
"""Metrics of the runtime, under upstream's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kubeloop.metrics import Histogram, MetricFamily, MetricRegistry, MetricValue, exponential_bounds

_QUEUE_BOUNDS = exponential_bounds(10e-9, 10, 10)
_RECONCILE_BOUNDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
_REQUEST_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE_BOUNDS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class QueueState(Protocol):
    """Counters of a queue, read when metrics are collected."""

    @property
    def depth(self) -> int:
        """Number of waiting keys."""

    @property
    def adds(self) -> int:
        """Number of keys added."""

    @property
    def requeues(self) -> int:
        """Number of keys added with a delay."""

    def running_seconds(self) -> list[float]:
        """Seconds that each key in work has been so."""


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """`workqueue_*` histograms of one queue, observed as it works."""

    observe_wait: Callable[[float], None]
    observe_work: Callable[[float], None]


def register_queue_metrics(registry: MetricRegistry, name: str, queue: QueueState) -> QueueMetrics:
    """Register a queue's metrics; replaces those of an earlier queue of the same name."""
    gauge, counter, histogram = registry.gauge, registry.counter, registry.histogram
    gauge("workqueue_depth", "name").set_function(lambda: queue.depth, name)
    counter("workqueue_adds_total", "name").set_function(lambda: queue.adds, name)
    counter("workqueue_retries_total", "name").set_function(lambda: queue.requeues, name)
    gauge("workqueue_unfinished_work_seconds", "name").set_function(lambda: sum(queue.running_seconds()), name)
    gauge("workqueue_longest_running_processor_seconds", "name").set_function(
        lambda: max(queue.running_seconds(), default=0.0), name
    )
    waited = histogram(
        "workqueue_queue_duration_seconds", "name",
        bounds=_QUEUE_BOUNDS,
    )  # fmt: skip
    worked = histogram("workqueue_work_duration_seconds", "name", bounds=_QUEUE_BOUNDS)
    return QueueMetrics(waited.with_labels(name).observe, worked.with_labels(name).observe)


@dataclass(frozen=True, slots=True)
class ReconcileMetrics:
    """`controller_runtime_*` metrics of one controller."""

    results: dict[str, MetricValue]
    errors: MetricValue
    terminal_errors: MetricValue
    timeouts: MetricValue
    seconds: Callable[[float], None]


def register_reconcile_metrics(
    registry: MetricRegistry, controller: str, workers: int, active: Callable[[], int]
) -> ReconcileMetrics:
    """Register a controller's metrics with its number of workers and a function for the active ones."""

    def counter(name: str) -> MetricValue:
        return registry.counter(f"controller_runtime_{name}", "controller").with_labels(controller)

    total = registry.counter("controller_runtime_reconcile_total", "controller", "result")
    gauge = registry.gauge
    gauge("controller_runtime_max_concurrent_reconciles", "controller").with_labels(controller).value = workers
    gauge("controller_runtime_active_workers", "controller").set_function(active, controller)
    seconds = registry.histogram(
        "controller_runtime_reconcile_time_seconds", "controller",
        bounds=_RECONCILE_BOUNDS,
    )  # fmt: skip
    return ReconcileMetrics(
        results={
            result: total.with_labels(controller, result) for result in ("success", "requeue", "requeue_after", "error")
        },
        errors=counter("reconcile_errors_total"),
        terminal_errors=counter("terminal_reconcile_errors_total"),
        timeouts=counter("reconcile_timeouts_total"),
        seconds=seconds.with_labels(controller).observe,
    )


class RestClientMetrics:
    """`rest_client_*` metrics of one server: an implementation of `ClientMetrics`."""

    def __init__(self, registry: MetricRegistry, host: str) -> None:
        def histogram(name: str, bounds: tuple[float, ...]) -> MetricFamily[Histogram]:
            return registry.histogram(f"rest_client_{name}", "verb", "host", bounds=bounds)

        counter = registry.counter
        self._host = host
        self._total = counter("rest_client_requests_total", "code", "method", "host")
        self._retries = counter("rest_client_request_retries_total", "code", "verb", "host")
        self._seconds = histogram("request_duration_seconds", _REQUEST_BOUNDS)
        self._held = histogram("rate_limiter_duration_seconds", _REQUEST_BOUNDS)
        self._sent = histogram("request_size_bytes", _SIZE_BOUNDS)
        self._received = histogram("response_size_bytes", _SIZE_BOUNDS)

    def request(self, method: str, code: str) -> None:
        """Count an attempt."""
        self._total.with_labels(code, method, self._host).value += 1

    def duration(self, verb: str, seconds: float) -> None:
        """Observe a request's duration."""
        self._seconds.with_labels(verb, self._host).observe(seconds)

    def sizes(self, verb: str, sent: int, received: int) -> None:
        """Observe the sizes of a request and its response."""
        self._sent.with_labels(verb, self._host).observe(sent)
        self._received.with_labels(verb, self._host).observe(received)

    def rate_limiter_wait(self, verb: str, seconds: float) -> None:
        """Observe the wait for the rate limiter."""
        self._held.with_labels(verb, self._host).observe(seconds)

    def retry(self, verb: str, code: str) -> None:
        """Count a retry."""
        self._retries.with_labels(code, verb, self._host).value += 1


@dataclass(frozen=True, slots=True)
class LeaderElectionMetrics:
    """`leader_election_*` metrics of one lease."""

    is_leader: MetricValue
    slow_path: MetricValue


def register_leader_election_metrics(registry: MetricRegistry, lease: str) -> LeaderElectionMetrics:
    """Register the metrics of a lease."""
    return LeaderElectionMetrics(
        is_leader=registry.gauge("leader_election_master_status", "name").with_labels(lease),
        slow_path=registry.counter("leader_election_slowpath_total", "name").with_labels(lease),
    )
