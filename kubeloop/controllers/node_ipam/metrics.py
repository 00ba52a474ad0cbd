# SPDX-License-Identifier: Apache-2.0
"""Metrics of CIDR allocations, under upstream's names."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.controllers.node_ipam.cidr_set import CidrSet
from kubeloop.metrics import MetricRegistry, exponential_bounds

_PREFIX = "node_ipam_controller"
_LABEL = "clusterCIDR"


class NodeIpamMetrics:
    """Metrics of CIDR allocations."""

    def __init__(self, registry: MetricRegistry, sets: Sequence[CidrSet]) -> None:
        self._taken = registry.counter(f"{_PREFIX}_cidrset_cidrs_allocations_total", _LABEL)
        self._freed = registry.counter(f"{_PREFIX}_cidrset_cidrs_releases_total", _LABEL)
        self._tries = registry.histogram(
            f"{_PREFIX}_cidrset_allocation_tries_per_request",
            _LABEL,
            bounds=exponential_bounds(1, 5, 5),
        )
        most = registry.gauge(f"{_PREFIX}_cirdset_max_cidrs", _LABEL)
        usage = registry.gauge(f"{_PREFIX}_cidrset_usage_cidrs", _LABEL)
        for one in sets:
            label = str(one.network)
            most.with_labels(label).value = one.size
            usage.set_function(lambda one=one: one.used / one.size, label)  # type: ignore[misc]

    def record_allocation(self, one: CidrSet, tries: int) -> None:
        """Record an allocation and the number of tries."""
        self.record_occupied(one, 1)
        self._tries.with_labels(str(one.network)).observe(tries)

    def record_occupied(self, one: CidrSet, count: int) -> None:
        """Count held subnets."""
        self._taken.with_labels(str(one.network)).value += count

    def record_released(self, one: CidrSet, count: int) -> None:
        """Count released subnets."""
        self._freed.with_labels(str(one.network)).value += count
