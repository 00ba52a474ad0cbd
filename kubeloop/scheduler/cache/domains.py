"""Parts of the cluster that have the same value of a label, and sums over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.labels import Column

Numbers = NDArray[np.int64]
HOSTNAME = "kubernetes.io/hostname"


class Domains:
    """The values of one label; nodes without it are in no domain."""

    def __init__(self, cluster: ClusterState, label: str) -> None:
        self._column: Column = cluster.labels.column(label)

    @property
    def ids(self) -> NDArray[np.int32]:
        return self._column.ids

    @property
    def has(self) -> NDArray[np.bool_]:
        return self._column.ids >= 0

    def sums(self, numbers: Numbers, where: NDArray[np.bool_] | None = None) -> Numbers:
        """By domain; the last element, which -1 stands for, is always 0."""
        ids = self._column.ids
        counted = (numbers != 0) & (ids >= 0)
        if where is not None:
            counted &= where
        totals = np.zeros(len(self._column.values) + 1, np.int64)
        rows = np.flatnonzero(counted)
        if len(rows):
            totals += np.bincount(ids[rows], numbers[rows], len(totals)).astype(np.int64)
        return totals

    def spread(self, numbers: Numbers, where: NDArray[np.bool_] | None = None) -> Numbers:
        """For each row the sum over its domain; 0 for rows in none."""
        return self.sums(numbers, where)[self._column.ids]

    def number(self, ids: NDArray[np.int32]) -> int:
        """How many different ones there are among these; to be in none counts as one."""
        found = np.zeros(len(self._column.values) + 1, bool)
        found[ids] = True
        return int(found.sum())

    def present(self, where: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which domains have a node among those."""
        found = np.zeros(len(self._column.values), bool)
        found[self._column.ids[where & self.has]] = True
        return found
