# SPDX-License-Identifier: Apache-2.0
"""Metrics of the autoscaler controller, under upstream's names."""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.metrics import MetricRegistry, exponential_bounds
from kubeloop.runtime.objects.keys import ObjectKey

_PREFIX = "horizontal_pod_autoscaler_controller"
_BOUNDS = exponential_bounds(0.001, 2, 15)


def action_of(before: int, after: int) -> str:
    """Return the metric label of a change of size."""
    return "none" if after == before else "scale_up" if after > before else "scale_down"


class HpaMonitor:
    """Counts reconciliations and computations by action and error (`spec`, `internal` or `none`), with durations."""

    def __init__(self, registry: MetricRegistry, count: Callable[[], float]) -> None:
        self._reconciliations = registry.counter(f"{_PREFIX}_reconciliations_total", "action", "error")
        self._reconciliation_seconds = registry.histogram(
            f"{_PREFIX}_reconciliation_duration_seconds",
            "action",
            "error",
            bounds=_BOUNDS,
        )
        self._computations = registry.counter(f"{_PREFIX}_metric_computation_total", "action", "error", "metric_type")
        self._computation_seconds = registry.histogram(
            f"{_PREFIX}_metric_computation_duration_seconds",
            "action",
            "error",
            "metric_type",
            bounds=_BOUNDS,
        )
        self._desired = registry.gauge(f"{_PREFIX}_desired_replicas", "namespace", "hpa_name")
        registry.gauge(f"{_PREFIX}_num_horizontal_pod_autoscalers").set_function(count)

    def observe_reconciliation(self, action: str, error: str, seconds: float) -> None:
        """Record a reconciliation."""
        self._reconciliations.with_labels(action, error).value += 1
        self._reconciliation_seconds.with_labels(action, error).observe(seconds)

    def observe_metric_computation(self, metric: str, action: str, error: str, seconds: float) -> None:
        """Record the computation for one metric."""
        self._computations.with_labels(action, error, metric).value += 1
        self._computation_seconds.with_labels(action, error, metric).observe(seconds)

    def observe_desired_replicas(self, key: ObjectKey, replicas: int) -> None:
        """Set the desired replicas of an autoscaler."""
        self._desired.with_labels(key.namespace, key.name).value = replicas

    def forget(self, key: ObjectKey) -> None:
        """Drop the values of a deleted autoscaler."""
        self._desired.drop(key.namespace, key.name)
