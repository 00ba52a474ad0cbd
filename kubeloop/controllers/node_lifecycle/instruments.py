"""Metrics of nodes and zones, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeloop.controllers.node_lifecycle.zones import ZoneTally
from kubeloop.runtime.metrics import MetricRegistry, exponential_bounds


class NodeLifecycleMetrics:
    """Metrics of nodes and zones."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._health = registry.gauge("node_collector_zone_health", "Ready nodes of a zone, in percent.", "zone")
        self._size = registry.gauge("node_collector_zone_size", "Nodes of a zone.", "zone")
        self._unready = registry.gauge(
            "node_collector_unhealthy_nodes_in_zone", "Nodes of a zone that are not ready.", "zone"
        )
        self._evictions = registry.counter(
            "node_collector_evictions_total", "Nodes that pods were made to leave, since this instance started.", "zone"
        )
        self.node_seconds = registry.histogram(
            "node_collector_update_node_health_duration_seconds",
            "How long a node took whose state had to be written.",
            bounds=exponential_bounds(0.001, 4, 8),
        ).of()
        self.pass_seconds = registry.histogram(
            "node_collector_update_all_nodes_health_duration_seconds",
            "How long a look at all nodes took.",
            bounds=exponential_bounds(0.01, 4, 8),
        ).of()

    def new_zone(self, zone: str) -> None:
        """Create the counter of a zone."""
        self._evictions.of(zone)

    def tainted(self, zone: str) -> None:
        """Count a tainted node."""
        self._evictions.of(zone).value += 1

    def count(self, tallies: Mapping[str, ZoneTally], gone: Iterable[str]) -> None:
        """Set the gauges of all zones, including those without nodes."""
        for zone, tally in (*tallies.items(), *((zone, ZoneTally()) for zone in gone)):
            self._health.of(zone).value = tally.health
            self._size.of(zone).value = tally.size
            self._unready.of(zone).value = tally.unready
