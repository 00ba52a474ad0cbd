# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesBalancedAllocation: prefers nodes whose resource utilization becomes more balanced by the pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ClusterState, Numbers, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import MAX_SCORE, SKIP, Plugin, Skip
from kubeloop.scheduler.plugins.shared.resource_scores import PodResourceUse, resource_weights

_HALF = MAX_SCORE // 2


class BalancedAllocation(Plugin):
    """Scores by the standard deviation of the utilization of resources."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._weights = resource_weights(args.get("resources"))

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> PodResourceUse | Skip:
        """Return the requests; SKIP for pods without any, which do not change the balance."""
        use = PodResourceUse(self._weights, pod.requests, cluster, presumed=False)
        return SKIP if use.is_empty else use

    def score(self, state: PodResourceUse, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the change of the balance by the pod, mapped to 0…100."""
        resources = state.utilization(rows)
        capacities = [one.capacity for one in resources]
        with_pod = _evenness([one.after for one in resources], capacities)
        without = _evenness([one.before for one in resources], capacities)
        # Around three quarters: above if the balance improves, below if it gets worse.
        gain = _HALF + with_pod - without
        return _HALF + gain // 2

    def score_row(self, state: PodResourceUse, cluster: ClusterState, row: int) -> int:
        """Return the score of one node; fast path for two resources."""
        resources = state.utilization_of_row(row)
        if len(resources) != 2:
            return super().score_row(state, cluster, row)
        (_, first, first_before, first_after), (_, second, second_before, second_after) = resources
        with_pod = _evenness_of_two(first_after, second_after, (first, second))
        without = _evenness_of_two(first_before, second_before, (first, second))
        return _HALF + (_HALF + with_pod - without) // 2


def _evenness_of_two(first: int, second: int, capacities: tuple[int, int]) -> int:
    if not capacities[0] or not capacities[1]:
        return MAX_SCORE
    deviation = abs((min(first / capacities[0], 1.0) - min(second / capacities[1], 1.0)) / 2)
    return int((1 - deviation) * MAX_SCORE)


def _evenness(used: Sequence[Numbers], capacities: Sequence[Numbers]) -> NDArray[np.int64]:
    """Return 100 if all resources are utilized equally, less the more the utilizations differ."""
    there = [capacity > 0 for capacity in capacities]
    parts = [
        np.where(exists, np.minimum(use / np.maximum(capacity, 1), 1.0), 0.0)
        for use, capacity, exists in zip(used, capacities, there, strict=True)
    ]
    if len(parts) == 2:
        deviation = np.where(there[0] & there[1], np.abs((parts[0] - parts[1]) / 2), 0.0)
    else:
        deviation = _deviation(np.array(parts), np.array(there))
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _deviation(parts: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    number = there.sum(axis=0)
    mean = parts.sum(axis=0) / np.maximum(number, 1)
    squares = np.where(there, (parts - mean) ** 2, 0.0).sum(axis=0)
    return np.where(number > 1, np.sqrt(squares / np.maximum(number, 1)), 0.0)
