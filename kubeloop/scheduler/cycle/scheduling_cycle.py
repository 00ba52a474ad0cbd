# SPDX-License-Identifier: Apache-2.0
"""Scheduling cycle: one attempt to select a node for a pod by filtering and scoring. No awaiting, no writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node
from kubeloop.scheduler.cache.cluster import ALL, ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.cycle.signature_results import SignatureResults
from kubeloop.scheduler.cycle.stopwatch import Stopwatch
from kubeloop.scheduler.extenders.extender import ExtenderResults
from kubeloop.scheduler.framework.placement import Placement
from kubeloop.scheduler.framework.plugin import Plugin, Skip, implements, wrap_plugin_error
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import Code, Diagnosis, PreFilterResult, SchedulingError, Status

_Answers = list[tuple[Plugin, Any, NDArray[np.int16]]]


class SchedulingCycle:
    """One scheduling attempt, and the plugins' state for it until the pod is bound."""

    def __init__(
        self,
        profile: Profile,
        cluster: ClusterState,
        pod: PodInfo,
        opinions: ExtenderResults | None = None,
        placement: Placement | None = None,
    ) -> None:
        self.profile = profile
        self.cluster = cluster
        self.pod = pod
        self.node = ""  # the selected node
        self.states: dict[Any, Any] = {}  # state of the plugins that are not node-local, by name
        self.stopwatch = Stopwatch(profile.now)
        self.is_interrupted = False  # cancelled while binding: the result is unknown
        self.is_tentative = False  # within the cycle of a pod group: plugins must not write
        self._opinions = opinions  # results of extenders, if there are any
        self._placement = placement  # the only nodes considered, if there is one
        self._view: SignatureResults | None = None
        self._answers: _Answers = []
        self._fits: NDArray[np.bool_] = np.zeros(0, bool)
        self._before: Status | None = None
        self._narrowing: set[str] = set()
        self._narrowed: PreFilterResult | None = None

    def select_node(self) -> str:
        """Select the best node and return its name, or "" if none fits; `diagnose` then gives the reasons."""
        if not self._filter():
            return ""
        row = self._nominated_row()
        if row is None:
            row = self._best()
            self.stopwatch.lap("Score")
        if row is not None:
            self.node = self.cluster.name_of(row)
        return self.node

    def interrupt(self) -> None:
        """Record that the binding was cancelled and its result is unknown."""
        self.is_interrupted = True

    def set_tentative(self, tentative: bool) -> None:
        """Record whether the cycle is part of the cycle of a pod group."""
        self.is_tentative = tentative

    def find_nodes_that_fit(self) -> dict[str, Node]:
        """Return all feasible nodes by name."""
        if not self._filter():
            return {}
        nodes = (self.cluster.nodes[int(row)] for row in np.flatnonzero(self._fits))
        return {one.metadata.name: one for one in nodes}

    # Filtering.

    def _filter(self) -> bool:
        view = self._view = self.profile.signature_results(self.pod.signature)
        view.refresh(self.pod, self.cluster, self.stopwatch)
        self._before, self._narrowed, self._narrowing = (
            view.pre_filter_status,
            view.pre_filter_result,
            set(view.pre_filter_plugins),
        )
        if self._before is not None:
            return False
        answers = self._run_cluster_wide_filters()
        if answers is None:
            return False
        self._answers = answers
        self._fits = view.feasible
        if self._answers or self._narrowed is not view.pre_filter_result:
            self._fits = view.feasible.copy()
            for _, _, numbers in self._answers:
                self._fits &= numbers == 0
            self._apply_pre_filter_result()
        if self._placement is not None:
            self._fits = self._fits & self._within(self._placement.node_names)
        if self.profile.nominator:
            self._filter_beside_nominated_pods()
        if self._opinions is not None:
            self._apply_extender_results(self._opinions)
        self.stopwatch.lap("Filter")
        return True

    def _apply_extender_results(self, opinions: ExtenderResults) -> None:
        """Remove nodes that extenders reject, and nodes that were not sent to them."""
        self._fits = self._fits.copy()
        self._fits &= self._within(opinions.feasible_nodes)
        known = [
            (row, one) for name, one in opinions.failed_nodes.items() if (row := self.cluster.row_of(name)) is not None
        ]
        if known:
            self._answers.append(_status_results(self.cluster.size, known))

    def _run_cluster_wide_filters(self) -> _Answers | None:
        """Run PreFilter and Filter of the plugins that are not node-local; these run for every pod."""
        found: _Answers = []
        assert self._view is not None
        for plugin in self._view.cluster_wide_filters:
            state = plugin.pre_filter(self.pod, self.cluster)
            if isinstance(state, PreFilterResult):
                self._restrict_nodes(plugin, state)
                state = state.state
            if isinstance(state, Status):
                self._before = state
                return None
            self.states[plugin.name] = state
            if not isinstance(state, Skip) and implements(type(plugin), "filter"):
                self.stopwatch.lap("PreFilter")
                answers = self._filter_remaining(plugin, state, found) if plugin.is_expensive else None
                found.append((plugin, state, plugin.filter(state, self.cluster, ALL) if answers is None else answers))
                self.stopwatch.lap("Filter")
        self.stopwatch.lap("PreFilter")
        return found

    def _filter_remaining(self, plugin: Plugin, state: Any, others: _Answers) -> NDArray[np.int16]:
        """Filter only the nodes that no other plugin rejects; an error on one of them fails the attempt."""
        assert self._view is not None
        is_open = self._view.feasible.copy()
        for _, _, numbers in others:
            is_open &= numbers == 0
        rows = np.flatnonzero(is_open)
        answers = np.zeros(self.cluster.size, np.int16)
        answers[rows] = plugin.filter(state, self.cluster, rows)
        for number in np.unique(answers[answers != 0]):
            _raise_if_failed(plugin, plugin.filter_status(state, int(number)))
        return answers

    def _restrict_nodes(self, plugin: Plugin, state: PreFilterResult) -> None:
        self._narrowing.add(plugin.name)
        nodes = state.node_names if self._narrowed is None else self._narrowed.node_names & state.node_names
        self._narrowed = PreFilterResult(nodes)

    def _apply_pre_filter_result(self) -> None:
        if self._narrowed is not None:
            self._fits &= self._within(self._narrowed.node_names)

    def _within(self, names: Iterable[str]) -> NDArray[np.bool_]:
        within = np.zeros(self.cluster.size, bool)
        within[self._rows_of(names)] = True
        return within

    def _rows_of(self, names: Iterable[str]) -> list[int]:
        return [row for name in names if (row := self.cluster.row_of(name)) is not None]

    def _filter_beside_nominated_pods(self) -> None:
        """Reject nodes on which the pod does not fit together with nominated pods of no lower priority."""
        for name, waiting in self.profile.nominator.higher_priority_pods_by_node(self.pod).items():
            row = self.cluster.row_of(name)
            if row is None or not self._fits[row]:
                continue
            refusal = self._refusal_beside(waiting, row)
            if refusal is not None:
                self._fits = self._fits.copy()
                self._fits[row] = False
                self._answers.append(_status_results(self.cluster.size, [(row, refusal)]))

    def filter_with_nominated_pods(self, row: int) -> Status | None:
        """Return the rejection of a node, filtered with and without the pods nominated to it."""
        waiting = self.profile.nominator.higher_priority_pods_by_node(self.pod) if self.profile.nominator else {}
        beside = waiting.get(self.cluster.name_of(row))
        refusal = self._refusal_beside(beside, row) if beside else None
        return refusal or self.run_filter_plugins(row)

    def _refusal_beside(self, waiting: Iterable[PodInfo], row: int) -> Status | None:
        name = self.cluster.name_of(row)
        for one in waiting:
            self.cluster.add_pod(one, name)
        try:
            return self.run_filter_plugins(row)
        finally:
            for one in waiting:
                self.cluster.remove_pod(one, name)

    def run_filter_plugins(self, row: int) -> Status | None:
        """Return the rejection of a node in the present state of the cluster; None if it is feasible."""
        rows = np.array([row], np.intp)
        assert self._view is not None
        for part in self._view.filters:
            number = int(part.plugin.filter(part.state, self.cluster, rows)[0])
            if number:
                return part.plugin.filter_status(part.state, number)
        for plugin in self._view.cluster_wide_filters:
            state = plugin.pre_filter(self.pod, self.cluster)
            if isinstance(state, PreFilterResult):
                state = state.state
            if isinstance(state, Status):
                return state
            if isinstance(state, Skip) or not implements(type(plugin), "filter"):
                continue
            number = int(plugin.filter(state, self.cluster, rows)[0])
            if number:
                return plugin.filter_status(state, number)
        return None

    # Selecting.

    def _nominated_row(self) -> int | None:
        """Return the row of the pod's nominated node if it is feasible."""
        name = self.pod.pod.status.nominated_node_name
        row = self.cluster.row_of(name) if name else None
        return row if row is not None and self._fits[row] else None

    def _best(self) -> int | None:
        """Return the row of a random one of the feasible nodes with the highest score."""
        view = self._view
        assert view is not None
        asked = [(one, one.plugin.pre_score(self.pod, self.cluster)) for one in view.cluster_wide_scores]
        opinions = [(one, state) for one, state in asked if not isinstance(state, Skip)]
        self.stopwatch.lap("PreScore")
        if not opinions and not view.scores and self._fits is view.feasible:
            most = view.static_ranking.max()
            return None if most < 0 else self._select_random(np.flatnonzero(view.static_ranking == most))
        rows = np.flatnonzero(self._fits)
        if len(rows) <= 1:
            return int(rows[0]) if len(rows) else None
        total = view.static_scores[rows]
        for part in view.scores:
            total = total + part.weight * part.plugin.normalize_score(
                part.state, part.results[rows], self.cluster, rows
            )
        for one, state in opinions:
            total = total + one.weight * self._wide_scores(one.plugin, state, rows)
        if self._opinions is not None:
            liked = self._opinions.scores
            total = total + np.array([liked.get(self.cluster.name_of(int(row)), 0) for row in rows], np.int64)
        return self._select_random(rows[total == total.max()])

    def _wide_scores(self, plugin: Plugin, state: Any, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        scores = plugin.score(state, self.cluster, rows)
        return (
            plugin.normalize_score(state, scores, self.cluster, rows)
            if implements(type(plugin), "normalize_score")
            else scores
        )

    def _select_random(self, equals: NDArray[np.intp]) -> int:
        if len(equals) == 1:
            return int(equals[0])
        return int(equals[self.profile.random().randrange(len(equals))])

    # Diagnosis.

    def diagnose(self) -> Diagnosis:
        """Return the reasons for no node being feasible; for each node, those of the first plugin that rejects it."""
        open_rows = self.cluster.in_use.copy()
        if self._placement is not None:
            open_rows &= self._within(self._placement.node_names)
        diagnosis = Diagnosis(len(self.cluster) if self._placement is None else int(open_rows.sum()))
        if self._before is not None:
            if not self._before.is_rejected:
                raise SchedulingError(wrap_plugin_error("PreFilter", self._before).message)
            diagnosis.reject_before_nodes(self._before)
            return diagnosis
        diagnosis.unschedulable_plugins.update(self._narrowing)
        if self._narrowed is not None:
            self._diagnose_pre_filter_result(diagnosis, open_rows)
        for plugin, state, answers in self._in_order():
            self._diagnose_filter_results(diagnosis, open_rows, plugin, state, answers)
        return diagnosis

    def _diagnose_pre_filter_result(self, diagnosis: Diagnosis, open_rows: NDArray[np.bool_]) -> None:
        assert self._narrowed is not None
        open_rows &= self._within(self._narrowed.node_names)
        names, told = " ".join(sorted(self._narrowing)), ""
        if not self._narrowed.node_names:
            which = f"{'(s) [' + names + '] simultaneously' if len(self._narrowing) > 1 else ' ' + names}"
            told = f"node(s) didn't satisfy plugin{which}"
        absent = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{names}]",))
        diagnosis.set_pre_filter_result(told, absent)

    def _diagnose_filter_results(
        self, diagnosis: Diagnosis, open_rows: NDArray[np.bool_], plugin: Plugin, state: Any, answers: NDArray[np.int16]
    ) -> None:
        refused = open_rows & (answers != 0)
        if not refused.any():
            return
        for number in np.unique(answers[refused]):
            refusal = plugin.filter_status(state, int(number))
            _raise_if_failed(plugin, refusal)
            diagnosis.add_plugin_status(refusal)
            diagnosis.node_statuses.append((refusal, np.flatnonzero(refused & (answers == number))))
        open_rows &= ~refused

    def _in_order(self) -> _Answers:
        """Return all filter results in the order of the profile's plugins, those about nominated pods last."""
        assert self._view is not None
        found = [(part.plugin, part.state, part.results) for part in self._view.filters] + self._answers
        order = {plugin.name: position for position, plugin in enumerate(self.profile.filter_plugins)}
        return sorted(found, key=lambda one: order.get(one[0].name, len(order)))


def _raise_if_failed(plugin: Plugin, refusal: Status) -> None:
    if refusal.code is Code.ERROR:
        raise SchedulingError(f'running "{plugin.name}" filter plugin: {refusal.message}')


class _StatusPlugin(Plugin):
    """Pseudo plugin for rejections of single nodes by nominated pods or extenders."""

    name = ""

    def filter_status(self, state: Sequence[Status], number: int) -> Status:
        """Return the numbered status."""
        return state[number - 1]


def _status_results(size: int, refusals: Sequence[tuple[int, Status]]) -> tuple[Plugin, Any, NDArray[np.int16]]:
    """Return statuses of rows in the form of a plugin's filter result."""
    different = list(dict.fromkeys(one for _, one in refusals))
    answers = np.zeros(size, np.int16)
    for row, one in refusals:
        answers[row] = different.index(one) + 1
    return _StatusPlugin.__new__(_StatusPlugin), different, answers
