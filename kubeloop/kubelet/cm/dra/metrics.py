# SPDX-License-Identifier: Apache-2.0
"""Metrics of dynamic resource allocation, with upstream's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeloop.metrics import MetricRegistry

_LOWEST, _HIGHEST, _COUNT = 0.1, 40.0, 15
BOUNDS = tuple(_LOWEST * (_HIGHEST / _LOWEST) ** (index / (_COUNT - 1)) for index in range(_COUNT))


class DRAMetrics:
    """Durations of operations and calls, skipped calls, and claims in use."""

    def __init__(self, registry: MetricRegistry) -> None:
        histogram, counter = registry.histogram, registry.counter
        self._operations = histogram("dra_operations_duration_seconds", "operation_name", "is_error", bounds=BOUNDS)
        labels = ("driver_name", "method_name", "grpc_status_code")
        self._calls = histogram("dra_grpc_operations_duration_seconds", *labels, bounds=BOUNDS)
        self._prepare_skips = counter("dra_node_prepare_skips_total", "driver_name")
        self._unprepare_skips = counter("dra_node_unprepare_skips_total", "driver_name")
        self._in_use = registry.gauge("dra_resource_claims_in_use", "driver_name")

    def collect_claims(self, collect: Callable[[], Mapping[tuple[str], float]]) -> None:
        """Set the function that counts the claims in use by driver."""
        self._in_use.set_collector(collect)

    def observe_operation(self, name: str, seconds: float, *, is_error: bool) -> None:
        """Count an operation for a pod."""
        self._operations.with_labels(name, "true" if is_error else "false").observe(seconds)

    def observe_call(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Count a call of a driver."""
        self._calls.with_labels(driver, method, code).observe(seconds)

    def count_prepare_skip(self, driver: str) -> None:
        """Count a NodePrepareResources call that was not needed."""
        self._prepare_skips.with_labels(driver).increment()

    def count_unprepare_skip(self, driver: str) -> None:
        """Count a NodeUnprepareResources call that was not needed."""
        self._unprepare_skips.with_labels(driver).increment()
