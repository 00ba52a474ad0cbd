# SPDX-License-Identifier: Apache-2.0
"""Metrics of device plugins, under upstream's names."""

from __future__ import annotations

from kubeloop.metrics import MetricRegistry

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class DevicePluginMetrics:
    """Registrations of plugins, and durations of their allocations."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._registrations = registry.counter("kubelet_device_plugin_registration_total", "resource_name")
        self._allocations = registry.histogram(
            "kubelet_device_plugin_alloc_duration_seconds", "resource_name", bounds=_BOUNDS
        )

    def count_registration(self, resource: str) -> None:
        """Count a registration, also one that is refused."""
        self._registrations.with_labels(resource).increment()

    def observe_allocation(self, resource: str, seconds: float) -> None:
        """Observe the duration of a call of Allocate."""
        self._allocations.with_labels(resource).observe(seconds)
