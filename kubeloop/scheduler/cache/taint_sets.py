# SPDX-License-Identifier: Apache-2.0
"""Numbers that depend only on a node's taints, computed once per distinct set of taints."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Taint, Toleration
from kubeloop.api.pods.placement import first_untolerated
from kubeloop.scheduler.cache.cluster import ClusterState, Rows

HARD_TAINT_EFFECTS = ("NoSchedule", "NoExecute")


class TaintFunction:
    """Function of taints, evaluated for all nodes at once."""

    def __init__(self, number_of: Callable[[tuple[Taint, ...]], int]) -> None:
        self._number_of = number_of
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)

    def evaluate(self, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the function's value for rows."""
        known, sets = len(self._numbers), cluster.taint_sets
        if known < len(sets):
            more = np.array([self._number_of(taints) for taints in sets[known:]], np.int64)
            self._numbers = np.concatenate([self._numbers, more])
        found: NDArray[np.int64] = self._numbers[cluster.taints[rows]]
        return found


def untolerated_taint_function(tolerations: Collection[Toleration]) -> TaintFunction:
    """Return a function that is 1 where an untolerated NoSchedule or NoExecute taint exists."""
    return TaintFunction(lambda taints: int(first_untolerated(taints, tolerations, HARD_TAINT_EFFECTS) is not None))
