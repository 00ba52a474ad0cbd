# SPDX-License-Identifier: Apache-2.0
"""Metrics of the EndpointSlice controller, under upstream's names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kubeloop.controllers.endpointslice.slice_plan import SlicePlan
from kubeloop.controllers.shared.endpoints.slices import Ports
from kubeloop.metrics import MetricRegistry, MetricValue, exponential_bounds
from kubeloop.runtime.objects.keys import ObjectKey

PREFIX = "endpoint_slice_controller"
_COUNTS = exponential_bounds(2, 2, 15)
_DEFAULT_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class EndpointSliceMetrics:
    """Metrics of syncs, writes and the fill level of slices."""

    def __init__(self, registry: MetricRegistry, capacity: int) -> None:
        self._capacity = capacity
        self._sizes: dict[tuple[ObjectKey, str], tuple[int, int, int]] = {}  # endpoints, slices, slices at optimum
        self._distributions: dict[ObjectKey, str] = {}
        self._added = registry.histogram(f"{PREFIX}_endpoints_added_per_sync", bounds=_COUNTS).with_labels()
        self._removed = registry.histogram(f"{PREFIX}_endpoints_removed_per_sync", bounds=_COUNTS).with_labels()
        self._changed = registry.histogram(
            f"{PREFIX}_endpointslices_changed_per_sync",
            "topology",
            "traffic_distribution",
            bounds=_DEFAULT_BOUNDS,
        )
        for index, name in enumerate(("endpoints_desired", "num_endpoint_slices", "desired_endpoint_slices")):
            registry.gauge(f"{PREFIX}_{name}").set_function(partial(self._sum, index))
        self._syncs = registry.counter(f"{PREFIX}_syncs", "result")
        operations = registry.counter(f"{PREFIX}_changes", "operation")
        self.changes: Mapping[str, MetricValue] = {
            one: operations.with_labels(one) for one in ("create", "update", "delete")
        }
        self._services = registry.gauge(
            f"{PREFIX}_services_count_by_traffic_distribution",
            "traffic_distribution",
        )

    def record_sync(self, result: str) -> None:
        """Count a sync by its result."""
        self._syncs.with_labels(result).value += 1

    def record_plan(self, key: ObjectKey, address_type: str, plan: SlicePlan) -> None:
        """Record the plan for a Service's slices of one address type."""
        self._added.observe(plan.added)
        self._removed.observe(plan.removed)
        by_ports: dict[Ports, int] = {}
        for draft in plan.drafts:
            by_ports[draft.ports] = by_ports.get(draft.ports, 0) + len(draft.endpoints)
        filled = sum(-(-count // self._capacity) for count in by_ports.values()) or 1
        self._sizes[key, address_type] = sum(by_ports.values()), len(plan.drafts), filled

    def record_writes(self, topology: bool, distribution: str, slices: int) -> None:
        """Record the number of slices written."""
        self._changed.with_labels("Auto" if topology else "Disabled", distribution).observe(slices)

    def set_distribution(self, key: ObjectKey, distribution: str) -> None:
        """Update the number of Services by traffic distribution."""
        before = self._distributions.pop(key, "")
        if before != distribution and before:
            self._services.with_labels(before).value -= 1
        if distribution:
            self._distributions[key] = distribution
            if before != distribution:
                self._services.with_labels(distribution).value += 1

    def forget(self, key: ObjectKey) -> None:
        """Drop the values of a deleted Service."""
        self.set_distribution(key, "")
        for address_type in ("IPv4", "IPv6"):
            self._sizes.pop((key, address_type), None)

    def _sum(self, index: int) -> int:
        return sum(one[index] for one in self._sizes.values())
