"""Metrics of the autoscaler controller, under upstream's names."""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.runtime.metrics import MetricRegistry, exponential_bounds
from kubeloop.runtime.objects.keys import ObjectKey

_PREFIX = "horizontal_pod_autoscaler_controller"
_BOUNDS = exponential_bounds(0.001, 2, 15)


def action_of(before: int, after: int) -> str:
    """Return the metric label of a change of size."""
    return "none" if after == before else "scale_up" if after > before else "scale_down"


class HpaMonitor:
    """Counts reconciliations and computations by action and error (`spec`, `internal` or `none`), with durations."""

    def __init__(self, registry: MetricRegistry, count: Callable[[], float]) -> None:
        self._reconciliations = registry.counter(
            f"{_PREFIX}_reconciliations_total", "How often autoscalers were looked at.", "action", "error"
        )
        self._reconciliation_seconds = registry.histogram(
            f"{_PREFIX}_reconciliation_duration_seconds",
            "How long one look at an autoscaler takes.",
            "action",
            "error",
            bounds=_BOUNDS,
        )
        self._computations = registry.counter(
            f"{_PREFIX}_metric_computation_total", "How often metrics were read.", "action", "error", "metric_type"
        )
        self._computation_seconds = registry.histogram(
            f"{_PREFIX}_metric_computation_duration_seconds",
            "How long it takes to read one metric.",
            "action",
            "error",
            "metric_type",
            bounds=_BOUNDS,
        )
        self._desired = registry.gauge(
            f"{_PREFIX}_desired_replicas", "How many pods an autoscaler wants.", "namespace", "hpa_name"
        )
        registry.gauge(f"{_PREFIX}_num_horizontal_pod_autoscalers", "How many autoscalers there are.").read(count)

    def reconciled(self, action: str, error: str, seconds: float) -> None:
        """Record a reconciliation."""
        self._reconciliations.of(action, error).value += 1
        self._reconciliation_seconds.of(action, error).observe(seconds)

    def computed(self, metric: str, action: str, error: str, seconds: float) -> None:
        """Record the computation for one metric."""
        self._computations.of(action, error, metric).value += 1
        self._computation_seconds.of(action, error, metric).observe(seconds)

    def desired(self, key: ObjectKey, replicas: int) -> None:
        """Set the desired replicas of an autoscaler."""
        self._desired.of(key.namespace, key.name).value = replicas

    def forget(self, key: ObjectKey) -> None:
        """Drop the values of a deleted autoscaler."""
        self._desired.drop(key.namespace, key.name)
