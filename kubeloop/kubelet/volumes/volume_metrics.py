# SPDX-License-Identifier: Apache-2.0
"""Metrics of volume operations, under upstream's names: mounts of volumes whose contents the agent checks."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import Volume
from kubeloop.metrics import MetricRegistry

_BOUNDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
_PLUGINS: Final = {"config_map": "configmap", "secret": "secret", "projected": "projected"}


class VolumeMetrics:
    """Durations of single mounts by their result, and of all tries until a volume is mounted."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._operations = registry.histogram(
            "storage_operation_duration_seconds",
            "volume_plugin",
            "operation_name",
            "status",
            "migrated",
            bounds=_BOUNDS,
        )
        self._totals = registry.histogram(
            "volume_operation_total_seconds", "plugin_name", "operation_name", bounds=_BOUNDS
        )

    def observe_mount(self, volume: Volume, seconds: float, *, failed: bool) -> None:
        """Observe one try to mount a volume."""
        status = "fail-unknown" if failed else "success"
        self._operations.with_labels(_plugin_of(volume), "volume_mount", status, "false").observe(seconds)

    def observe_total(self, volume: Volume, seconds: float) -> None:
        """Observe the time from the pod's arrival until a volume is mounted."""
        self._totals.with_labels(_plugin_of(volume), "overall_volume_mount").observe(seconds)


def _plugin_of(volume: Volume) -> str:
    """Return the name of the plugin for a volume with contents from API objects."""
    plugin = next(name for field, name in _PLUGINS.items() if getattr(volume, field) is not None)
    return f"kubernetes.io/{plugin}"
