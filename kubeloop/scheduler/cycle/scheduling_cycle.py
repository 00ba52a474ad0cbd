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
from kubeloop.scheduler.framework.plugin import Plugin, Skip, implements, wrap_plugin_error
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import Code, Diagnosis, PreFilterResult, SchedulingError, Status

_Answers = list[tuple[Plugin, Any, NDArray[np.int16]]]


class SchedulingCycle:
    """One scheduling attempt, and the plugins' state for it until the pod is bound."""

    def __init__(
        self, profile: Profile, cluster: ClusterState, pod: PodInfo, opinions: ExtenderResults | None = None
    ) -> None:
        self.profile = profile
        self.cluster = cluster
        self.pod = pod
        self.node = ""  # the selected node
        self.states: dict[Any, Any] = {}  # state of the plugins that are not node-local, by name
        self.watch = Stopwatch(profile.now)
        self.is_interrupted = False  # cancelled while binding: the result is unknown
        self._opinions = opinions  # results of extenders, if there are any
        self._view: SignatureResults | None = None
        self._answers: _Answers = []
        self._fits: NDArray[np.bool_] = np.zeros(0, bool)
        self._before: Status | None = None
        self._narrowing: set[str] = set()
        self._narrowed: PreFilterResult | None = None

    def choose(self) -> str:
        """Return the name of the best node, or "" if none fits; `diagnose` then gives the reasons."""
        if not self._filter():
            return ""
        row = self._nominated_row()
        if row is None:
            row = self._best()
            self.watch.lap("Score")
        return "" if row is None else self.cluster.name_of(row)

    def fitting(self) -> dict[str, Node]:
        """Return all feasible nodes by name."""
        if not self._filter():
            return {}
        nodes = (self.cluster.nodes[int(row)] for row in np.flatnonzero(self._fits))
        return {one.metadata.name: one for one in nodes}

    # Filtering.

    def _filter(self) -> bool:
        view = self._view = self.profile.view(self.pod.template)
        view.refresh(self.pod, self.cluster, self.watch)
        self._before, self._narrowed, self._narrowing = view.before, view.narrowed, set(view.narrowing)
        if self._before is not None:
            return False
        answers = self._ask_others()
        if answers is None:
            return False
        self._answers = answers
        self._fits = view.fits
        if self._answers or self._narrowed is not view.narrowed:
            self._fits = view.fits.copy()
            for _, _, numbers in self._answers:
                self._fits &= numbers == 0
            self._apply_narrowing()
        if self.profile.nominations:
            self._leave_room()
        if self._opinions is not None:
            self._heed(self._opinions)
        self.watch.lap("Filter")
        return True

    def _heed(self, opinions: ExtenderResults) -> None:
        """Remove nodes that extenders reject, and nodes that were not sent to them."""
        self._fits = self._fits.copy()
        left = np.zeros(self.cluster.size, bool)
        left[self._rows_of(opinions.left)] = True
        self._fits &= left
        known = [(row, one) for name, one in opinions.refused.items() if (row := self.cluster.row_of(name)) is not None]
        if known:
            self._answers.append(_status_results(self.cluster.size, known))

    def _ask_others(self) -> _Answers | None:
        """Run PreFilter and Filter of the plugins that are not node-local; these run for every pod."""
        found: _Answers = []
        assert self._view is not None
        for plugin in self._view.wide_filters:
            state = plugin.prefilter(self.pod, self.cluster)
            if isinstance(state, PreFilterResult):
                self._narrow(plugin, state)
                state = state.state
            if isinstance(state, Status):
                self._before = state
                return None
            self.states[plugin.name] = state
            if not isinstance(state, Skip) and implements(type(plugin), "filter"):
                self.watch.lap("PreFilter")
                answers = self._open_answers(plugin, state, found) if plugin.costly else None
                found.append((plugin, state, plugin.filter(state, self.cluster, ALL) if answers is None else answers))
                self.watch.lap("Filter")
        self.watch.lap("PreFilter")
        return found

    def _open_answers(self, plugin: Plugin, state: Any, others: _Answers) -> NDArray[np.int16]:
        """Filter only the nodes that no other plugin rejects; an error on one of them fails the attempt."""
        assert self._view is not None
        is_open = self._view.fits.copy()
        for _, _, numbers in others:
            is_open &= numbers == 0
        rows = np.flatnonzero(is_open)
        answers = np.zeros(self.cluster.size, np.int16)
        answers[rows] = plugin.filter(state, self.cluster, rows)
        for number in np.unique(answers[answers != 0]):
            _raise_if_failed(plugin, plugin.refusal(state, int(number)))
        return answers

    def _narrow(self, plugin: Plugin, state: PreFilterResult) -> None:
        self._narrowing.add(plugin.name)
        nodes = state.nodes if self._narrowed is None else self._narrowed.nodes & state.nodes
        self._narrowed = PreFilterResult(nodes)

    def _apply_narrowing(self) -> None:
        if self._narrowed is None:
            return
        within = np.zeros(self.cluster.size, bool)
        within[self._rows_of(self._narrowed.nodes)] = True
        self._fits &= within

    def _rows_of(self, names: Iterable[str]) -> list[int]:
        return [row for name in names if (row := self.cluster.row_of(name)) is not None]

    def _leave_room(self) -> None:
        """Reject nodes on which the pod does not fit together with nominated pods of no lower priority."""
        for name, waiting in self.profile.nominations.in_the_way(self.pod).items():
            row = self.cluster.row_of(name)
            if row is None or not self._fits[row]:
                continue
            refusal = self._refusal_beside(waiting, row)
            if refusal is not None:
                self._fits = self._fits.copy()
                self._fits[row] = False
                self._answers.append(_status_results(self.cluster.size, [(row, refusal)]))

    def refusal_beside_others(self, row: int) -> Status | None:
        """Return the rejection of a node, filtered with and without the pods nominated to it."""
        waiting = self.profile.nominations.in_the_way(self.pod) if self.profile.nominations else {}
        beside = waiting.get(self.cluster.name_of(row))
        refusal = self._refusal_beside(beside, row) if beside else None
        return refusal or self.refusal_on(row)

    def _refusal_beside(self, waiting: Iterable[PodInfo], row: int) -> Status | None:
        name = self.cluster.name_of(row)
        for one in waiting:
            self.cluster.add_pod(one, name)
        try:
            return self.refusal_on(row)
        finally:
            for one in waiting:
                self.cluster.remove_pod(one, name)

    def refusal_on(self, row: int) -> Status | None:
        """Return the rejection of a node in the present state of the cluster; None if it is feasible."""
        rows = np.array([row], np.intp)
        assert self._view is not None
        for part in self._view.filters:
            number = int(part.plugin.filter(part.state, self.cluster, rows)[0])
            if number:
                return part.plugin.refusal(part.state, number)
        for plugin in self._view.wide_filters:
            state = plugin.prefilter(self.pod, self.cluster)
            if isinstance(state, PreFilterResult):
                state = state.state
            if isinstance(state, Status):
                return state
            if isinstance(state, Skip) or not implements(type(plugin), "filter"):
                continue
            number = int(plugin.filter(state, self.cluster, rows)[0])
            if number:
                return plugin.refusal(state, number)
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
        asked = [(one, one.plugin.prescore(self.pod, self.cluster)) for one in view.wide_scores]
        opinions = [(one, state) for one, state in asked if not isinstance(state, Skip)]
        self.watch.lap("PreScore")
        if not opinions and not view.scores and self._fits is view.fits:
            most = view.ranked.max()
            return None if most < 0 else self._draw(np.flatnonzero(view.ranked == most))
        rows = np.flatnonzero(self._fits)
        if len(rows) <= 1:
            return int(rows[0]) if len(rows) else None
        total = view.fixed[rows]
        for part in view.scores:
            total = total + part.weight * part.plugin.normalize(part.state, part.answers[rows], self.cluster, rows)
        for one, state in opinions:
            total = total + one.weight * self._wide_scores(one.plugin, state, rows)
        if self._opinions is not None:
            liked = self._opinions.scores
            total = total + np.array([liked.get(self.cluster.name_of(int(row)), 0) for row in rows], np.int64)
        return self._draw(rows[total == total.max()])

    def _wide_scores(self, plugin: Plugin, state: Any, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        scores = plugin.score(state, self.cluster, rows)
        return plugin.normalize(state, scores, self.cluster, rows) if implements(type(plugin), "normalize") else scores

    def _draw(self, equals: NDArray[np.intp]) -> int:
        if len(equals) == 1:
            return int(equals[0])
        return int(equals[self.profile.random().randrange(len(equals))])

    # Diagnosis.

    def diagnose(self) -> Diagnosis:
        """Return the reasons for no node being feasible; for each node, those of the first plugin that rejects it."""
        diagnosis = Diagnosis(len(self.cluster))
        if self._before is not None:
            if not self._before.is_rejection:
                raise SchedulingError(wrap_plugin_error("PreFilter", self._before).message)
            diagnosis.before, diagnosis.absent = self._before.message, self._before
            diagnosis.note(self._before)
            return diagnosis
        diagnosis.plugins |= self._narrowing
        open_rows = self.cluster.alive.copy()
        if self._narrowed is not None:
            self._tell_narrowing(diagnosis, open_rows)
        for plugin, state, answers in self._in_order():
            self._tell_answers(diagnosis, open_rows, plugin, state, answers)
        return diagnosis

    def _tell_narrowing(self, diagnosis: Diagnosis, open_rows: NDArray[np.bool_]) -> None:
        assert self._narrowed is not None
        within = np.zeros(self.cluster.size, bool)
        within[self._rows_of(self._narrowed.nodes)] = True
        open_rows &= within
        names = " ".join(sorted(self._narrowing))
        if not self._narrowed.nodes:
            told = f"{'(s) [' + names + '] simultaneously' if len(self._narrowing) > 1 else ' ' + names}"
            diagnosis.before = f"node(s) didn't satisfy plugin{told}"
        diagnosis.absent = Status(Code.UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{names}]",))

    def _tell_answers(
        self, diagnosis: Diagnosis, open_rows: NDArray[np.bool_], plugin: Plugin, state: Any, answers: NDArray[np.int16]
    ) -> None:
        refused = open_rows & (answers != 0)
        if not refused.any():
            return
        for number in np.unique(answers[refused]):
            refusal = plugin.refusal(state, int(number))
            _raise_if_failed(plugin, refusal)
            diagnosis.note(refusal)
            diagnosis.groups.append((refusal, np.flatnonzero(refused & (answers == number))))
        open_rows &= ~refused

    def _in_order(self) -> _Answers:
        """Return all filter results in the order of the profile's plugins, those about nominated pods last."""
        assert self._view is not None
        found = [(part.plugin, part.state, part.answers) for part in self._view.filters] + self._answers
        order = {plugin.name: position for position, plugin in enumerate(self.profile.filters)}
        return sorted(found, key=lambda one: order.get(one[0].name, len(order)))


def _raise_if_failed(plugin: Plugin, refusal: Status) -> None:
    if refusal.code is Code.ERROR:
        raise SchedulingError(f'running "{plugin.name}" filter plugin: {refusal.message}')


class _StatusPlugin(Plugin):
    """Pseudo plugin for rejections of single nodes by nominated pods or extenders."""

    name = ""

    def refusal(self, state: Sequence[Status], number: int) -> Status:
        """Return the numbered status."""
        return state[number - 1]


def _status_results(size: int, refusals: Sequence[tuple[int, Status]]) -> tuple[Plugin, Any, NDArray[np.int16]]:
    """Return statuses of rows in the form of a plugin's filter result."""
    different = list(dict.fromkeys(one for _, one in refusals))
    answers = np.zeros(size, np.int16)
    for row, one in refusals:
        answers[row] = different.index(one) + 1
    return _StatusPlugin.__new__(_StatusPlugin), different, answers
