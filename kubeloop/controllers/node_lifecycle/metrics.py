# SPDX-License-Identifier: Apache-2.0
"""Metrics of nodes and zones, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeloop.controllers.node_lifecycle.zones import ZoneTally
from kubeloop.metrics import MetricRegistry, exponential_bounds


class NodeLifecycleMetrics:
    """Metrics of nodes and zones."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._health = registry.gauge("node_collector_zone_health", "zone")
        self._size = registry.gauge("node_collector_zone_size", "zone")
        self._unready = registry.gauge("node_collector_unhealthy_nodes_in_zone", "zone")
        self._evictions = registry.counter("node_collector_evictions_total", "zone")
        self.node_seconds = registry.histogram(
            "node_collector_update_node_health_duration_seconds",
            bounds=exponential_bounds(0.001, 4, 8),
        ).with_labels()
        self.pass_seconds = registry.histogram(
            "node_collector_update_all_nodes_health_duration_seconds",
            bounds=exponential_bounds(0.01, 4, 8),
        ).with_labels()

    def new_zone(self, zone: str) -> None:
        """Create the counter of a zone."""
        self._evictions.with_labels(zone)

    def record_tainted(self, zone: str) -> None:
        """Count a tainted node."""
        self._evictions.with_labels(zone).value += 1

    def set_zone_health(self, tallies: Mapping[str, ZoneTally], gone: Iterable[str]) -> None:
        """Set the gauges of all zones, including those without nodes."""
        for zone, tally in (*tallies.items(), *((zone, ZoneTally()) for zone in gone)):
            self._health.with_labels(zone).value = tally.health
            self._size.with_labels(zone).value = tally.size
            self._unready.with_labels(zone).value = tally.unready
