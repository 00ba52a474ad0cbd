"""Metrics of CIDR allocations, under upstream's names."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.controllers.node_ipam.cidr_set import CidrSet
from kubeloop.runtime.metrics import MetricRegistry, exponential_bounds

_PREFIX = "node_ipam_controller"
_LABEL = "clusterCIDR"


class NodeIpamMetrics:
    """Metrics of CIDR allocations."""

    def __init__(self, registry: MetricRegistry, sets: Sequence[CidrSet]) -> None:
        self._taken = registry.counter(f"{_PREFIX}_cidrset_cidrs_allocations_total", "Networks given.", _LABEL)
        self._freed = registry.counter(
            f"{_PREFIX}_cidrset_cidrs_releases_total", "Networks that are free again.", _LABEL
        )
        self._tries = registry.histogram(
            f"{_PREFIX}_cidrset_allocation_tries_per_request",
            "How many networks were looked at before one was free.",
            _LABEL,
            bounds=exponential_bounds(1, 5, 5),
        )
        most = registry.gauge(f"{_PREFIX}_cirdset_max_cidrs", "How many networks there are.", _LABEL)
        usage = registry.gauge(f"{_PREFIX}_cidrset_usage_cidrs", "Which part of the networks is taken.", _LABEL)
        for one in sets:
            label = str(one.network)
            most.of(label).value = one.size
            usage.read(lambda one=one: one.used / one.size, label)  # type: ignore[misc]

    def taken(self, one: CidrSet, tries: int) -> None:
        """Record an allocation and the number of tries."""
        self.held(one, 1)
        self._tries.of(str(one.network)).observe(tries)

    def held(self, one: CidrSet, count: int) -> None:
        """Count held subnets."""
        self._taken.of(str(one.network)).value += count

    def freed(self, one: CidrSet, count: int) -> None:
        """Count released subnets."""
        self._freed.of(str(one.network)).value += count
