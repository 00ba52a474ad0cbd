# SPDX-License-Identifier: Apache-2.0
"""Resource utilization of nodes with a pod, and the scoring strategies of NodeResourcesFit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache import resources as amounts
from kubeloop.scheduler.cache.cluster import ClusterState, Numbers, Rows
from kubeloop.scheduler.framework.plugin import MAX_SCORE

_FULL = 100  # percent
_CUSTOM_MAX = 10  # maximum score of a shape point


class ResourceUtilization(NamedTuple):
    """Utilization of one resource on the rows in question."""

    weight: int
    capacity: Numbers
    before: Numbers  # requested before
    after: Numbers  # requested with the pod


class PodResourceUse:
    """Resources that count for a pod, with its requests and the columns, which are valid until the arrays grow."""

    def __init__(
        self, weights: Sequence[tuple[str, int]], requests: Mapping[str, int], cluster: ClusterState, *, presumed: bool
    ) -> None:
        self._counted: list[tuple[int, int, Numbers, Numbers]] = []
        for name, weight in weights:
            # Scalar resources count only for pods that request them.
            if requests.get(name) or not amounts.is_scalar_resource(name):
                basic = presumed and name in (amounts.CPU, amounts.MEMORY)
                used = cluster.resource_column(cluster.nonzero_requested if basic else cluster.requested, name)
                have = cluster.resource_column(cluster.allocatable, name)
                self._counted.append((weight, requests.get(name, 0), have, used))

    @property
    def is_empty(self) -> bool:
        """True if the pod requests none of the resources."""
        return not any(amount for _, amount, _, _ in self._counted)

    def utilization(self, rows: Rows) -> list[ResourceUtilization]:
        """Return the utilization by resource for rows."""
        return [
            ResourceUtilization(weight, have[rows], before := used[rows], before + amount)
            for weight, amount, have, used in self._counted
        ]

    def utilization_of_row(self, row: int) -> list[tuple[int, int, int, int]]:
        """Return weight, capacity, use before and use after by resource for one node."""
        return [
            (weight, have.item(row), before := used.item(row), before + amount)
            for weight, amount, have, used in self._counted
        ]


Scorer = Callable[[Sequence[ResourceUtilization], int], NDArray[np.int64]]


def resource_weights(resources: Sequence[Mapping[str, Any]] | None) -> list[tuple[str, int]]:
    """Return the resources with their weights; cpu and memory with equal weights by default."""
    if not resources:
        return [(amounts.CPU, 1), (amounts.MEMORY, 1)]
    return [(one["name"], one.get("weight") or 1) for one in resources]


def strategy_scorer(strategy: Mapping[str, Any]) -> Scorer:
    """Return the function of a scoring strategy."""
    match strategy.get("type") or "LeastAllocated":
        case "LeastAllocated":
            return least_allocated
        case "MostAllocated":
            return most_allocated
        case "RequestedToCapacityRatio":
            shape = (strategy.get("requestedToCapacityRatio") or {}).get("shape") or ()
            return _ratio([(one["utilization"], one["score"] * MAX_SCORE // _CUSTOM_MAX) for one in shape])
        case other:
            raise ValueError(f"scoring strategy {other} is not supported")


def least_allocated(resources: Sequence[ResourceUtilization], count: int) -> NDArray[np.int64]:
    """Score by the free share of the resources."""
    return _average(resources, count, lambda one: np.maximum(one.capacity - one.after, 0) * MAX_SCORE)


def most_allocated(resources: Sequence[ResourceUtilization], count: int) -> NDArray[np.int64]:
    """Score by the used share of the resources."""
    return _average(resources, count, lambda one: np.minimum(one.after, one.capacity) * MAX_SCORE)


def _average(
    resources: Sequence[ResourceUtilization], count: int, part: Callable[[ResourceUtilization], Numbers]
) -> NDArray[np.int64]:
    """Return the weighted mean over the resources; those a node does not have do not count."""
    total, weights = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for one in resources:
        there = one.capacity > 0
        total += np.where(there, part(one) // np.maximum(one.capacity, 1), 0) * one.weight
        weights += there * one.weight
    return total // np.maximum(weights, 1)


def _ratio(shape: Sequence[tuple[int, int]]) -> Scorer:
    """Return the scorer of RequestedToCapacityRatio: a broken line over the utilization percentage."""
    table = np.array([broken_linear(shape, percent) for percent in range(_FULL + 1)], np.int64)

    def score(resources: Sequence[ResourceUtilization], count: int) -> NDArray[np.int64]:
        total, weights = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for one in resources:
            there = one.capacity > 0
            percent = np.minimum(one.after * _FULL // np.maximum(one.capacity, 1), _FULL)
            points = np.where(there, table[percent], 0)
            total += points * one.weight
            weights += (points > 0) * one.weight
        exact = total / np.maximum(weights, 1)
        return np.floor(exact + 0.5).astype(np.int64)

    return score


def broken_linear(shape: Sequence[tuple[int, int]], percent: int) -> int:
    """Return the score of a percentage on a broken line."""
    for index, (use, score) in enumerate(shape):
        if percent <= use:
            if index == 0:
                return score
            last_use, last_score = shape[index - 1]
            part = (score - last_score) * (percent - last_use)
            return last_score + int(part / (use - last_use))  # truncates towards zero, as Go does
    return shape[-1][1]
