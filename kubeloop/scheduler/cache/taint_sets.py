"""Numbers that depend on nothing of a node but its taints: worked out once for each set of taints that nodes have."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Taint, Toleration
from kubeloop.api.pods.placement import first_untolerated
from kubeloop.scheduler.cache.cluster import ClusterState, Rows

HARD = ("NoSchedule", "NoExecute")


class ByTaints:
    """A function of taints, asked of all nodes at once."""

    def __init__(self, number_of: Callable[[tuple[Taint, ...]], int]) -> None:
        self._number_of = number_of
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)

    def of(self, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        known, sets = len(self._numbers), cluster.taint_sets
        if known < len(sets):
            more = np.array([self._number_of(taints) for taints in sets[known:]], np.int64)
            self._numbers = np.concatenate([self._numbers, more])
        found: NDArray[np.int64] = self._numbers[cluster.taints[rows]]
        return found


def untolerated(tolerations: Collection[Toleration]) -> ByTaints:
    """1 where a taint keeps the pod away."""
    return ByTaints(lambda taints: int(first_untolerated(taints, tolerations, HARD) is not None))
