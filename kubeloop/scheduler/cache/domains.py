# SPDX-License-Identifier: Apache-2.0
"""Topology domains: groups of nodes with the same value of a label, and sums over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.labels import LabelColumn

Numbers = NDArray[np.int64]
HOSTNAME = "kubernetes.io/hostname"


class TopologyDomains:
    """Domains of one label; nodes without the label are in no domain."""

    def __init__(self, cluster: ClusterState, label: str) -> None:
        self._column: LabelColumn = cluster.labels.column(label)

    @property
    def ids(self) -> NDArray[np.int32]:
        """Domain number of each row; -1 for none."""
        return self._column.ids

    @property
    def has_domain(self) -> NDArray[np.bool_]:
        """Mask of the rows that are in a domain."""
        return self._column.ids >= 0

    def sums(self, numbers: Numbers, where: NDArray[np.bool_] | None = None) -> Numbers:
        """Return the sum of the numbers by domain; the last element, for index -1, is always 0."""
        ids = self._column.ids
        counted = (numbers != 0) & (ids >= 0)
        if where is not None:
            counted &= where
        totals = np.zeros(len(self._column.values) + 1, np.int64)
        rows = np.flatnonzero(counted)
        if len(rows):
            totals += np.bincount(ids[rows], numbers[rows], len(totals)).astype(np.int64)
        return totals

    def sums_by_row(self, numbers: Numbers, where: NDArray[np.bool_] | None = None) -> Numbers:
        """Return for each row the sum over its domain; 0 for rows in none."""
        return self.sums(numbers, where)[self._column.ids]

    def count_distinct(self, ids: NDArray[np.int32]) -> int:
        """Return the number of distinct domains among these ids; -1 counts as one."""
        found = np.zeros(len(self._column.values) + 1, bool)
        found[ids] = True
        return int(found.sum())

    def domains_with_nodes(self, where: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the domains that contain one of the selected nodes."""
        found = np.zeros(len(self._column.values), bool)
        found[self._column.ids[where & self.has_domain]] = True
        return found
