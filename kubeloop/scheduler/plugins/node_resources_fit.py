# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFit: filters nodes with sufficient resources, and scores by a scoring strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.resource_v1 import DeviceClass
from kubeloop.api.quota.resource_names import DEVICE_CLASS
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.cache import resources
from kubeloop.scheduler.cache.cluster import ClusterState, Numbers, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.dra.extended_resources import ExtendedResourceCache
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import MAX_SCORE, ClusterEventWithHint, Plugin
from kubeloop.scheduler.framework.status import Code, Status
from kubeloop.scheduler.plugins.shared.resource_scores import (
    PodResourceUse,
    least_allocated,
    resource_weights,
    strategy_scorer,
)
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, TARGET_POD, ActionType

DEVICE_CLASSES: Final = resource_of_class(DeviceClass).group_resource
_TOO_MANY_PODS: Final = 1
_UNRESOLVABLE: Final = 1 << 14  # bit: the node is too small even when empty
_MOST_RESOURCES: Final = 13  # bits left; further kinds of resources share the last one


# Amount, bit, allocatable column, requested column.
_Column = tuple[int, int, Numbers, Numbers]


class _PreFilterState(NamedTuple):
    """Requests of a pod, each with its bit in the filter result."""

    amounts: Sequence[tuple[str, int, int]]
    columns: Sequence[_Column]
    by_class: Sequence[_Column]  # where a node provides none of them, DynamicResources handles devices


class NodeResourcesFit(Plugin):
    """Compares requests of cpu, memory, storage, pods and extended resources with what is free."""

    name = "NodeResourcesFit"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        strategy = args.get("scoringStrategy") or {}
        self._weights = resource_weights(strategy.get("resources"))
        self._score = strategy_scorer(strategy)
        self._classes = ExtendedResourceCache.shared_by(handle)
        self._ignored = frozenset(args.get("ignoredResources") or ())
        self._ignored_groups = frozenset(args.get("ignoredResourceGroups") or ())

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of pods, nodes and device classes that may help."""
        return (
            ClusterEventWithHint(ASSIGNED_POD, ActionType.DELETE, _is_schedulable_after_assigned_pod_delete),
            ClusterEventWithHint(
                NODE, ActionType.ADD | ActionType.NODE_ALLOCATABLE, self._is_schedulable_after_node_change
            ),
            ClusterEventWithHint(
                ASSIGNED_POD, ActionType.POD_SCALE_DOWN, self._is_schedulable_after_assigned_pod_scale_down
            ),
            ClusterEventWithHint(TARGET_POD, ActionType.POD_SCALE_DOWN),
            ClusterEventWithHint(
                DEVICE_CLASSES, ActionType.ADD | ActionType.UPDATE, _is_schedulable_after_device_class_event
            ),
        )

    # Filtering.

    def state_version(self, cluster: ClusterState) -> int:
        """Return the version of the device classes."""
        return self._classes.version

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> _PreFilterState:
        """Return the requests with their columns."""
        names = [name for name, amount in self._sorted(pod.requests) if amount and not self._is_ignored(name)]
        wanted = [(name, pod.requests[name], 2 << min(bit, _MOST_RESOURCES - 1)) for bit, name in enumerate(names)]
        have, used = cluster.allocatable, cluster.requested
        delegated = self._classes.filter_backed(pod.requests)
        columns: tuple[list[_Column], list[_Column]] = [], []
        for name, amount, bit in wanted:
            column = amount, bit, cluster.resource_column(have, name), cluster.resource_column(used, name)
            columns[name in delegated].append(column)
        return _PreFilterState(wanted, *columns)

    def filter(self, state: _PreFilterState, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return a bit set of the insufficient resources by node."""
        answers = (cluster.pod_count[rows] >= cluster.allowed_pod_number[rows]).astype(np.int16)
        for amount, bit, column, used in state.columns:
            have = column[rows]
            lacking = amount > have - used[rows]
            if lacking.any():
                answers[lacking] |= bit
                answers[lacking & (amount > have)] |= _UNRESOLVABLE
        for amount, bit, column, used in state.by_class:
            have = column[rows]
            lacking = (have > 0) & (amount > have - used[rows])
            answers[lacking] |= bit
            answers[lacking & (amount > have)] |= _UNRESOLVABLE
        return answers

    def filter_row(self, state: _PreFilterState, cluster: ClusterState, row: int) -> int:
        """Return the bit set of one node."""
        answer = int(cluster.pod_count.item(row) >= cluster.allowed_pod_number.item(row))
        for amount, bit, column, used in state.columns:
            have = column.item(row)
            if amount > have - used.item(row):
                answer |= bit | (_UNRESOLVABLE if amount > have else 0)
        for amount, bit, column, used in state.by_class:
            have = column.item(row)
            if have and amount > have - used.item(row):
                answer |= bit | (_UNRESOLVABLE if amount > have else 0)
        return answer

    def filter_status(self, state: _PreFilterState, number: int) -> Status:
        """Return the status for a bit set."""
        reasons = ["Too many pods"] if number & _TOO_MANY_PODS else []
        reasons += [f"Insufficient {name}" for name, _, bit in state.amounts if number & bit]
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if number & _UNRESOLVABLE else Code.UNSCHEDULABLE
        return Status(code, tuple(reasons), self.name)

    def _sorted(self, requests: Mapping[str, int]) -> list[tuple[str, int]]:
        order = (resources.CPU, resources.MEMORY, resources.STORAGE)
        return sorted(
            requests.items(), key=lambda one: (order.index(one[0]) if one[0] in order else len(order), one[0])
        )

    def _is_ignored(self, name: str) -> bool:
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    # Scoring.

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> PodResourceUse:
        """Return the non-zero requests."""
        return PodResourceUse(self._weights, pod.signature.nonzero_requests, cluster, presumed=True)

    def score(self, state: PodResourceUse, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the score of the strategy."""
        return self._score(state.utilization(rows), len(cluster.in_use[rows]))

    def score_row(self, state: PodResourceUse, cluster: ClusterState, row: int) -> int:
        """Return the score of one node; fast path for LeastAllocated."""
        if self._score is not least_allocated:
            return super().score_row(state, cluster, row)
        total = weights = 0
        for weight, capacity, _, after in state.utilization_of_row(row):
            if capacity > 0:
                total += max(capacity - after, 0) * MAX_SCORE // capacity * weight
                weights += weight
        return total // weights if weights else 0

    # Hints.

    def _is_schedulable_after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> bool:
        """Return True if an added or enlarged node would fit the pod when empty."""
        have = resources.to_amounts(new.status.allocatable)
        delegated = [one for one in self._classes.filter_backed(pod.requests) if not have.get(one)]
        wanted = {
            name: amount
            for name, amount in pod.requests.items()
            if amount and not self._is_ignored(name) and name not in delegated
        }
        if have.get(resources.PODS, 0) < 1 or any(amount > have.get(name, 0) for name, amount in wanted.items()):
            return False
        if old is None or delegated:
            return True
        had = resources.to_amounts(old.status.allocatable)
        return any(have.get(name, 0) > had.get(name, 0) for name in (resources.PODS, *wanted))

    def _is_schedulable_after_assigned_pod_scale_down(self, pod: PodInfo, old: Any, new: Any) -> bool:
        before, after = resources.pod_requests(old), resources.pod_requests(new)
        return any(amount and before.get(name, 0) > after.get(name, 0) for name, amount in pod.requests.items())


def _is_schedulable_after_assigned_pod_delete(_: PodInfo, old: Any, new: Any) -> bool:
    return bool(old.spec.node_name or old.status.nominated_node_name)


def _is_schedulable_after_device_class_event(pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> bool:
    """Return True if a device class now backs an extended resource that the pod requests."""
    name = new.spec.extended_resource_name
    if old is None and pod.requests.get(DEVICE_CLASS + new.metadata.name):
        return True
    return bool(name and pod.requests.get(name)) and (old is None or old.spec.extended_resource_name != name)
