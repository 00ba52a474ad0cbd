# SPDX-License-Identifier: Apache-2.0
"""Results of health checks: the metrics of `/metrics/slis`, from which availability is computed."""

from __future__ import annotations

from kubeloop.metrics.process import register_start_time
from kubeloop.metrics.registry import MetricRegistry


class HealthCheckMetrics:
    """Latest result of each check, and the number of its results, by endpoint."""

    def __init__(self) -> None:
        self._registry = _new_registry()

    def observe(self, check: str, endpoint: str, *, passed: bool) -> None:
        """Count the result of a check, by the endpoint that it was made for: healthz, livez or readyz."""
        self._registry.gauge("kubernetes_healthcheck", "name", "type").with_labels(check, endpoint).value = int(passed)
        totals = self._registry.counter("kubernetes_healthchecks_total", "name", "type", "status")
        totals.with_labels(check, endpoint, "success" if passed else "error").value += 1

    def reset(self) -> None:
        """Forget all results."""
        self._registry = _new_registry()

    def respond(self, method: str) -> bytes:
        """Return the page for a method; DELETE forgets all results, as upstream's does."""
        if method == "DELETE":
            self.reset()
            return b"metrics reset\n"
        return self._registry.render().encode()


def _new_registry() -> MetricRegistry:
    registry = MetricRegistry()
    registry.gauge("kubernetes_healthcheck", "name", "type")
    registry.counter("kubernetes_healthchecks_total", "name", "type", "status")
    register_start_time(registry)
    return registry
