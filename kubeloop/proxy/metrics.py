# SPDX-License-Identifier: Apache-2.0
"""Metrics of the proxy, with upstream's names, labels and buckets."""

from __future__ import annotations

from typing import Final

from kubeloop.metrics import Histogram, MetricRegistry, MetricValue, exponential_bounds, linear_bounds

_SYNC_BOUNDS: Final = exponential_bounds(0.001, 2, 15)
_NETWORK_BOUNDS: Final = (
    *linear_bounds(0.25, 0.25, 2),
    *linear_bounds(1, 1, 59),
    *linear_bounds(60, 5, 12),
    *linear_bounds(120, 30, 7),
)


class ProxyMetrics:
    """Counters of a process, over all IP families."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry
        self.endpoint_changes = registry.counter("kubeproxy_sync_proxy_rules_endpoint_changes_total").with_labels()
        self.service_changes = registry.counter("kubeproxy_sync_proxy_rules_service_changes_total").with_labels()
        self.endpoints_pending = registry.gauge("kubeproxy_sync_proxy_rules_endpoint_changes_pending").with_labels()
        self.services_pending = registry.gauge("kubeproxy_sync_proxy_rules_service_changes_pending").with_labels()
        self._healthz = registry.counter("kubeproxy_proxy_healthz_total", "code")
        self._livez = registry.counter("kubeproxy_proxy_livez_total", "code")

    def family(self, family: str) -> FamilyMetrics:
        """Return the metrics of one IP family."""
        return FamilyMetrics(self.registry, family)

    def count_probe(self, path: str, status: int) -> None:
        """Count a request to `/healthz` or `/livez`."""
        (self._healthz if path == "/healthz" else self._livez).with_labels(str(status)).increment()


class FamilyMetrics:
    """Metrics of one IP family."""

    def __init__(self, registry: MetricRegistry, family: str) -> None:
        def duration(name: str) -> Histogram:
            return registry.histogram(name, "ip_family", bounds=_SYNC_BOUNDS).with_labels(family)

        def gauge(name: str) -> MetricValue:
            return registry.gauge(name, "ip_family").with_labels(family)

        def counter(name: str) -> MetricValue:
            return registry.counter(name, "ip_family").with_labels(family)

        prefix = "kubeproxy_sync_proxy_rules"
        self.sync_seconds = duration(f"{prefix}_duration_seconds")
        self.full_sync_seconds = duration("kubeproxy_sync_full_proxy_rules_duration_seconds")
        self.partial_sync_seconds = duration("kubeproxy_sync_partial_proxy_rules_duration_seconds")
        self.last_sync = gauge(f"{prefix}_last_timestamp_seconds")
        self.last_queued = gauge(f"{prefix}_last_queued_timestamp_seconds")
        self.sync_failures = counter(f"{prefix}_nftables_sync_failures_total")
        self.cleanup_failures = counter(f"{prefix}_nftables_cleanup_failures_total")
        self.conntrack_seconds = duration("kubeproxy_conntrack_reconciler_sync_duration_seconds")
        self.conntrack_deleted = counter("kubeproxy_conntrack_reconciler_deleted_entries_total")
        self.network_programming_seconds = registry.histogram(
            "kubeproxy_network_programming_duration_seconds", "ip_family", bounds=_NETWORK_BOUNDS
        ).with_labels(family)
        lacking = registry.gauge(f"{prefix}_no_local_endpoints_total", "traffic_policy", "ip_family")
        self.lacks_internal = lacking.with_labels("internal", family)
        self.lacks_external = lacking.with_labels("external", family)
