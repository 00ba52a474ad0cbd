# SPDX-License-Identifier: Apache-2.0
"""Metrics of the EndpointSlice mirroring controller, under upstream's names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kubeloop.controllers.endpointslice_mirroring.mirror import MirroredEndpoints, MirrorPlan
from kubeloop.metrics import MetricRegistry, MetricValue, exponential_bounds
from kubeloop.runtime.objects.keys import ObjectKey

PREFIX = "endpoint_slice_mirroring_controller"
_COUNTS = exponential_bounds(2, 2, 15)


class MirroringMetrics:
    """Metrics of mirrored endpoints and slices."""

    def __init__(self, registry: MetricRegistry, most: int) -> None:
        self._most = most
        self._sizes: dict[ObjectKey, tuple[int, int, int]] = {}  # endpoints, slices, slices at optimum
        added, updated, removed = (
            registry.histogram(f"{PREFIX}_endpoints_{what}_per_sync", bounds=_COUNTS)
            for what in ("added", "updated", "removed")
        )
        self._added, self._updated, self._removed = added.with_labels(), updated.with_labels(), removed.with_labels()
        self._skipped = registry.histogram(f"{PREFIX}_addresses_skipped_per_sync", bounds=_COUNTS).with_labels()
        self._seconds = registry.histogram(
            f"{PREFIX}_endpoints_sync_duration",
            bounds=exponential_bounds(0.001, 2, 15),
        ).with_labels()
        for index, name in enumerate(("endpoints_desired", "num_endpoint_slices", "desired_endpoint_slices")):
            registry.gauge(f"{PREFIX}_{name}").set_function(partial(self._sum, index))
        operations = registry.counter(f"{PREFIX}_changes", "operation")
        self.changes: Mapping[str, MetricValue] = {
            one: operations.with_labels(one) for one in ("create", "update", "delete")
        }

    def record_duration(self, seconds: float) -> None:
        """Record the duration of a sync."""
        self._seconds.observe(seconds)

    def record_plan(self, key: ObjectKey, found: MirroredEndpoints, plan: MirrorPlan) -> None:
        """Record the planned changes of one Endpoints object."""
        self._added.observe(plan.added)
        self._updated.observe(plan.updated)
        self._removed.observe(plan.removed)
        self._skipped.observe(found.skipped)
        sizes = [len(group) for group in found.groups.values() if group]
        self._sizes[key] = sum(sizes), len(sizes), sum(-(-size // self._most) for size in sizes)

    def forget(self, key: ObjectKey) -> None:
        """Drop the values of a deleted object."""
        self._sizes.pop(key, None)

    def _sum(self, index: int) -> int:
        return sum(one[index] for one in self._sizes.values())
