# SPDX-License-Identifier: Apache-2.0
"""Metrics of host updates of load balancers, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry, exponential_bounds


class ServiceLbMetrics:
    """Metrics of host updates."""

    def __init__(self, clock: Clock, registry: MetricRegistry) -> None:
        self._clock = clock
        self._updates = registry.counter("service_controller_loadbalancer_sync_total").with_labels()
        self._failures = registry.counter("service_controller_nodesync_error_total").with_labels()
        self._seconds = registry.histogram(
            "service_controller_update_loadbalancer_host_latency_seconds",
            bounds=exponential_bounds(1, 2, 15),
        ).with_labels()

    @contextmanager
    def measure_update(self) -> Iterator[None]:
        """Count and measure an update."""
        self._updates.value += 1
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._seconds.observe(self._clock.monotonic() - began)

    def record_failure(self) -> None:
        """Count a failed update."""
        self._failures.value += 1
