# SPDX-License-Identifier: Apache-2.0
"""Metrics of cluster IPs and node ports, read from the allocator on collection."""

from __future__ import annotations

from kubeloop.apiserver.registry.allocation import ALLOCATION_BOUNDS
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.metrics import MetricRegistry

Counts = dict[tuple[str, ...], float]


def register_service_metrics(registry: MetricRegistry, storages: StorageRegistry) -> None:
    """Register the metrics of the Services' allocator, if Services are stored."""
    allocators = [one.allocator for one in storages.storages() if one.allocator is not None]
    if not allocators:
        return
    allocator = allocators[0]

    def allocated() -> Counts:
        return {(cidr,): used for cidr, (used, _) in allocator.address_counts().items()}

    def available() -> Counts:
        return {(cidr,): size - used for cidr, (used, size) in allocator.address_counts().items()}

    gauge = registry.gauge
    gauge("kube_apiserver_clusterip_allocator_allocated_ips", "cidr").set_collector(allocated)
    gauge("kube_apiserver_clusterip_allocator_available_ips", "cidr").set_collector(available)
    allocations = registry.counter("kube_apiserver_clusterip_allocator_allocation_total", "cidr", "scope")
    allocations.set_collector(allocator.allocation_counts)
    registry.histogram(
        "kube_apiserver_clusterip_allocator_allocation_duration_seconds", "cidr", bounds=ALLOCATION_BOUNDS
    ).set_collector(allocator.allocation_seconds)
    repairs = allocator.port_repairs
    registry.counter("apiserver_nodeport_repair_reconcile_errors_total").set_function(lambda: repairs.failures)
    found = registry.counter("apiserver_nodeport_repair_port_errors_total", "type")
    found.set_collector(lambda: {(kind,): times for kind, times in repairs.errors.items() if times})
    ports = "kube_apiserver_nodeport_allocator"
    gauge(f"{ports}_allocated_ports").set_function(lambda: allocator.port_counts()[0])
    gauge(f"{ports}_available_ports").set_function(lambda: allocator.port_counts()[1])
