# SPDX-License-Identifier: Apache-2.0
"""Caches the filter and score results of node-local plugins by pod signature; recomputes rows of changed nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ALL, ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo, PodSignature
from kubeloop.scheduler.cycle.stopwatch import Stopwatch
from kubeloop.scheduler.framework.plugin import Plugin, Skip, implements
from kubeloop.scheduler.framework.status import PreFilterResult, Status

_INFEASIBLE = np.int64(-1)
_FEW = 4  # up to this number of rows the scalar code is faster than arrays


class WeightedPlugin(NamedTuple):
    """Score plugin with its weight."""

    plugin: Plugin
    weight: int


class _PluginResults:
    """Results of one plugin, by row."""

    __slots__ = ("plugin", "results", "state", "weight")

    def __init__(self, plugin: Plugin, state: Any, answers: NDArray[Any], weight: int = 0) -> None:
        self.plugin = plugin
        self.state = state
        self.results = answers
        self.weight = weight


class SignatureResults:
    """Results of a profile's node-local plugins for one pod signature."""

    def __init__(self, filters: Sequence[Plugin], scores: Sequence[WeightedPlugin], template: PodSignature) -> None:
        self._filters = [one for one in filters if one.is_node_local]
        self._scores = [one for one in scores if one.plugin.is_node_local]
        # Plugins that are not node-local; they run for every pod.
        self.cluster_wide_filters = [one for one in filters if not one.is_node_local and one.applies_to(template)]
        self.cluster_wide_scores = [
            one for one in scores if not one.plugin.is_node_local and one.plugin.applies_to(template)
        ]
        asked = dict.fromkeys((*self._filters, *(one.plugin for one in self._scores)))
        self._stamped = [one for one in asked if implements(type(one), "state_version")]
        self._stamp: tuple[int, ...] = ()
        self._position = -1
        self._node_changes = -1
        self._fixed: list[_PluginResults] = []  # results of plugins that do not normalize
        self.pre_filter_status: Status | None = None  # a rejection by PreFilter
        self.pre_filter_result: PreFilterResult | None = None
        self.pre_filter_plugins: set[str] = set()
        self.filters: list[_PluginResults] = []
        self.scores: list[_PluginResults] = []  # results of plugins that normalize
        self.static_scores: NDArray[np.int64] = np.zeros(0, np.int64)  # the weighted sum of all others
        self.feasible: NDArray[np.bool_] = np.zeros(0, bool)
        self.static_ranking: NDArray[np.int64] = np.zeros(0, np.int64)  # `fixed`, and -1 where the pod does not fit

    def refresh(self, pod: PodInfo, cluster: ClusterState, watch: Stopwatch) -> None:
        """Recompute the results of all rows that have changed since the last call."""
        stamp = (cluster.size, *[one.state_version(cluster) for one in self._stamped])
        changed = cluster.rows_changed_since(self._position) if self._position >= 0 and stamp == self._stamp else None
        rows = None if changed is None else set(changed)
        if rows is None or len(rows) > len(cluster) // 2 + 8:
            self._build(pod, cluster, watch)
        elif len(rows) <= _FEW and self._node_changes == cluster.node_version:
            for row in rows:
                self._update_row(cluster, row, watch)
        elif rows:
            self._update(cluster, np.fromiter(rows, np.intp, len(rows)), watch)
        self._node_changes = cluster.node_version
        self._stamp, self._position = stamp, cluster.log_position

    def _build(self, pod: PodInfo, cluster: ClusterState, watch: Stopwatch) -> None:
        self.pre_filter_status, self.pre_filter_result, self.filters, self.scores = None, None, [], []
        self.pre_filter_plugins = set()
        for plugin in self._filters:
            state = plugin.pre_filter(pod, cluster)
            if isinstance(state, PreFilterResult):
                self._narrow(plugin, state)
                state = state.state
            if isinstance(state, Status):
                self.pre_filter_status = state
                watch.lap("PreFilter")
                return
            if not isinstance(state, Skip) and implements(type(plugin), "filter"):
                self.filters.append(_PluginResults(plugin, state, np.zeros(cluster.size, np.int16)))
        watch.lap("PreFilter")
        self._fixed = []
        for plugin, weight in self._scores:
            state = plugin.pre_score(pod, cluster)
            if not isinstance(state, Skip):
                part = _PluginResults(plugin, state, np.zeros(cluster.size, np.int64), weight)
                (self.scores if implements(type(plugin), "normalize_score") else self._fixed).append(part)
        watch.lap("PreScore")
        self.static_scores = np.zeros(cluster.size, np.int64)
        self.feasible = np.zeros(cluster.size, bool)
        self.static_ranking = np.zeros(cluster.size, np.int64)
        self._update(cluster, ALL, watch)

    def _narrow(self, plugin: Plugin, state: PreFilterResult) -> None:
        self.pre_filter_plugins.add(plugin.name)
        nodes = (
            state.node_names if self.pre_filter_result is None else self.pre_filter_result.node_names & state.node_names
        )
        self.pre_filter_result = PreFilterResult(nodes)

    def _update(self, cluster: ClusterState, rows: Rows, watch: Stopwatch) -> None:
        if self.pre_filter_status is not None:
            return
        fits = cluster.in_use[rows].copy()
        for part in self.filters:
            answers = part.plugin.filter(part.state, cluster, rows)
            part.results[rows] = answers
            fits &= answers == 0
        if self.pre_filter_result is not None:
            fits &= self._within(cluster)[rows]
        self.feasible[rows] = fits
        watch.lap("Filter")
        for part in self.scores:
            part.results[rows] = part.plugin.score(part.state, cluster, rows)
        total = np.zeros(len(fits), np.int64)
        for part in self._fixed:
            scores = part.plugin.score(part.state, cluster, rows)
            part.results[rows] = scores
            total += scores * part.weight
        self.static_scores[rows] = total
        self.static_ranking[rows] = np.where(fits, total, _INFEASIBLE)
        watch.lap("Score")

    def _update_row(self, cluster: ClusterState, row: int, watch: Stopwatch) -> None:
        """Recompute one row on whose node only pods have changed."""
        if self.pre_filter_status is not None:
            return
        fits = cluster.in_use.item(row)
        for part in self.filters:
            if part.plugin.depends_on_pods:
                part.results[row] = part.plugin.filter_row(part.state, cluster, row)
            fits = fits and not part.results.item(row)
        if self.pre_filter_result is not None:
            fits = fits and cluster.name_of(row) in self.pre_filter_result.node_names
        watch.lap("Filter")
        for part in self.scores:
            if part.plugin.depends_on_pods:
                part.results[row] = part.plugin.score_row(part.state, cluster, row)
        total = 0
        for part in self._fixed:
            if part.plugin.depends_on_pods:
                part.results[row] = part.plugin.score_row(part.state, cluster, row)
            total += part.results.item(row) * part.weight
        self.feasible[row], self.static_scores[row], self.static_ranking[row] = fits, total, total if fits else -1
        watch.lap("Score")

    def _within(self, cluster: ClusterState) -> NDArray[np.bool_]:
        """Return a mask of the rows of nodes allowed by the PreFilter results."""
        within = np.zeros(cluster.size, bool)
        for name in self.pre_filter_result.node_names if self.pre_filter_result is not None else ():
            row = cluster.row_of(name)
            if row is not None:
                within[row] = True
        return within
