"""Metrics of host updates of load balancers, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kubeloop.clock import Clock
from kubeloop.runtime.metrics import MetricRegistry, exponential_bounds


class ServiceLbMetrics:
    """Metrics of host updates."""

    def __init__(self, clock: Clock, registry: MetricRegistry) -> None:
        self._clock = clock
        self._updates = registry.counter(
            "service_controller_loadbalancer_sync_total", "How often load balancers were directed to other nodes."
        ).of()
        self._failures = registry.counter("service_controller_nodesync_error_total", "How often that failed.").of()
        self._seconds = registry.histogram(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "How long it takes for one load balancer.",
            bounds=exponential_bounds(1, 2, 15),
        ).of()

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Count and measure an update."""
        self._updates.value += 1
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._seconds.observe(self._clock.monotonic() - began)

    def failed(self) -> None:
        """Count a failed update."""
        self._failures.value += 1
