# SPDX-License-Identifier: Apache-2.0
"""Metrics of the CPU, memory and topology managers, with upstream's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kubeloop.metrics import MetricRegistry, exponential_bounds

_SCOPES = ("container", "pod")
NUMA_NODE, PHYSICAL_CPU, UNCORE_CACHE = "numa_node", "physical_cpu", "uncore_cache"


class ResourceManagerMetrics:
    """Numbers of admissions and allocations of a node."""

    def __init__(self, registry: MetricRegistry, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        counter = registry.counter
        self.admissions = counter("kubelet_topology_manager_admission_requests_total").with_labels()
        self.admission_errors = counter("kubelet_topology_manager_admission_errors_total").with_labels()
        self._admission_milliseconds = registry.histogram(
            "kubelet_topology_manager_admission_duration_ms", bounds=exponential_bounds(0.05, 2, 15)
        ).with_labels()
        self.cpu_requests = counter("kubelet_cpu_manager_pinning_requests_total").with_labels()
        self.cpu_errors = counter("kubelet_cpu_manager_pinning_errors_total").with_labels()
        self.shared_pool = registry.gauge("kubelet_cpu_manager_shared_pool_size_millicores").with_labels()
        self.exclusive_cpus = registry.gauge("kubelet_cpu_manager_exclusive_cpu_allocation_count").with_labels()
        self.cpus_per_numa_node = registry.gauge("kubelet_cpu_manager_allocation_per_numa", NUMA_NODE)
        self.memory_requests = counter("kubelet_memory_manager_pinning_requests_total").with_labels()
        self.memory_errors = counter("kubelet_memory_manager_pinning_errors_total").with_labels()
        labels = ("scope", "boundary")
        self._aligned = counter("kubelet_container_aligned_compute_resources_count", *labels)
        self._misaligned = counter("kubelet_container_aligned_compute_resources_failure_count", *labels)

    @contextmanager
    def measure_admission(self) -> Iterator[None]:
        """Count an admission, and measure how long it takes in whole milliseconds."""
        self.admissions.increment()
        began = self._monotonic()
        try:
            yield
        finally:
            self._admission_milliseconds.observe(int((self._monotonic() - began) * 1000))

    def count_alignment(self, scope: str, boundary: str, *, failed: bool = False, times: int = 1) -> None:
        """Count an allocation within a part of the machine, or one that failed; 0 times shows the metric."""
        (self._misaligned if failed else self._aligned).with_labels(scope, boundary).increment(times)

    def show_numa_alignment(self) -> None:
        """Show the metrics of alignment on NUMA nodes before the first admission."""
        for scope in _SCOPES:
            for failed in (False, True):
                self.count_alignment(scope, NUMA_NODE, failed=failed, times=0)
