"""One attempt to find a node for one pod: filter, score, choose. No waiting, nothing written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node
from kubeloop.scheduler.cache.cluster import ALL, ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.cycle.signature_results import View
from kubeloop.scheduler.cycle.stopwatch import Stopwatch
from kubeloop.scheduler.extenders.extender import Opinions
from kubeloop.scheduler.framework.plugin import Plugin, Skip, implements, running
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import Code, Diagnosis, Narrowed, Refusal, SchedulingError

_Answers = list[tuple[Plugin, Any, NDArray[np.int16]]]


class Cycle:
    """The attempt, and what plugins remember of it until the pod is bound."""

    def __init__(self, profile: Profile, cluster: ClusterState, pod: PodInfo, opinions: Opinions | None = None) -> None:
        self.profile = profile
        self.cluster = cluster
        self.pod = pod
        self.node = ""  # the one that was chosen
        self.states: dict[Any, Any] = {}  # of plugins that look at more than one node, by name
        self.watch = Stopwatch(profile.now)
        self.is_interrupted = False  # while it was bound: nobody knows whether it is
        self._opinions = opinions  # of extenders, if there are any
        self._view: View | None = None
        self._answers: _Answers = []
        self._fits: NDArray[np.bool_] = np.zeros(0, bool)
        self._before: Refusal | None = None
        self._narrowing: set[str] = set()
        self._narrowed: Narrowed | None = None

    def choose(self) -> str:
        """The best node's name, or "" if none will do; `diagnose` then tells why."""
        if not self._filter():
            return ""
        row = self._nominated_row()
        if row is None:
            row = self._best()
            self.watch.lap("Score")
        return "" if row is None else self.cluster.name_of(row)

    def fitting(self) -> dict[str, Node]:
        """All nodes that will do."""
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

    def _heed(self, opinions: Opinions) -> None:
        """Strike off what extenders refuse, and what they were not asked about."""
        self._fits = self._fits.copy()
        left = np.zeros(self.cluster.size, bool)
        left[self._rows_of(opinions.left)] = True
        self._fits &= left
        known = [(row, one) for name, one in opinions.refused.items() if (row := self.cluster.row_of(name)) is not None]
        if known:
            self._answers.append(_told(self.cluster.size, known))

    def _ask_others(self) -> _Answers | None:
        """What plugins say that look at more than one node; they are asked anew for every pod."""
        found: _Answers = []
        assert self._view is not None
        for plugin in self._view.wide_filters:
            state = plugin.prefilter(self.pod, self.cluster)
            if isinstance(state, Narrowed):
                self._narrow(plugin, state)
                state = state.state
            if isinstance(state, Refusal):
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
        """Only about nodes that nobody else refuses; if the plugin fails on one of them, so does the attempt."""
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

    def _narrow(self, plugin: Plugin, state: Narrowed) -> None:
        self._narrowing.add(plugin.name)
        nodes = state.nodes if self._narrowed is None else self._narrowed.nodes & state.nodes
        self._narrowed = Narrowed(nodes)

    def _apply_narrowing(self) -> None:
        if self._narrowed is None:
            return
        within = np.zeros(self.cluster.size, bool)
        within[self._rows_of(self._narrowed.nodes)] = True
        self._fits &= within

    def _rows_of(self, names: Iterable[str]) -> list[int]:
        return [row for name in names if (row := self.cluster.row_of(name)) is not None]

    def _leave_room(self) -> None:
        """Where pods of no lower priority wait for room, the pod has to fit beside them."""
        for name, waiting in self.profile.nominations.in_the_way(self.pod).items():
            row = self.cluster.row_of(name)
            if row is None or not self._fits[row]:
                continue
            refusal = self._refusal_beside(waiting, row)
            if refusal is not None:
                self._fits = self._fits.copy()
                self._fits[row] = False
                self._answers.append(_told(self.cluster.size, [(row, refusal)]))

    def refusal_beside_others(self, row: int) -> Refusal | None:
        """Why one node will not do, with and without the pods that wait for room on it."""
        waiting = self.profile.nominations.in_the_way(self.pod) if self.profile.nominations else {}
        beside = waiting.get(self.cluster.name_of(row))
        refusal = self._refusal_beside(beside, row) if beside else None
        return refusal or self.refusal_on(row)

    def _refusal_beside(self, waiting: Iterable[PodInfo], row: int) -> Refusal | None:
        name = self.cluster.name_of(row)
        for one in waiting:
            self.cluster.add_pod(one, name)
        try:
            return self.refusal_on(row)
        finally:
            for one in waiting:
                self.cluster.remove_pod(one, name)

    def refusal_on(self, row: int) -> Refusal | None:
        """Why one node will not do, as the cluster is at this moment; None if it will."""
        rows = np.array([row], np.intp)
        assert self._view is not None
        for part in self._view.filters:
            number = int(part.plugin.filter(part.state, self.cluster, rows)[0])
            if number:
                return part.plugin.refusal(part.state, number)
        for plugin in self._view.wide_filters:
            state = plugin.prefilter(self.pod, self.cluster)
            if isinstance(state, Narrowed):
                state = state.state
            if isinstance(state, Refusal):
                return state
            if isinstance(state, Skip) or not implements(type(plugin), "filter"):
                continue
            number = int(plugin.filter(state, self.cluster, rows)[0])
            if number:
                return plugin.refusal(state, number)
        return None

    # Choosing.

    def _nominated_row(self) -> int | None:
        """The node that was made room on for the pod, if it will do."""
        name = self.pod.pod.status.nominated_node_name
        row = self.cluster.row_of(name) if name else None
        return row if row is not None and self._fits[row] else None

    def _best(self) -> int | None:
        """One of the nodes that are liked most among those that will do."""
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

    # Telling why not.

    def diagnose(self) -> Diagnosis:
        """Why no node will do; for each node, what the first plugin says that refuses it."""
        diagnosis = Diagnosis(len(self.cluster))
        if self._before is not None:
            if not self._before.is_rejection:
                raise SchedulingError(running("PreFilter", self._before).message)
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
        diagnosis.absent = Refusal(Code.UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{names}]",))

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
        """All answers in the order of the profile's plugins, those about nominated pods last."""
        assert self._view is not None
        found = [(part.plugin, part.state, part.answers) for part in self._view.filters] + self._answers
        order = {plugin.name: position for position, plugin in enumerate(self.profile.filters)}
        return sorted(found, key=lambda one: order.get(one[0].name, len(order)))


def _raise_if_failed(plugin: Plugin, refusal: Refusal) -> None:
    if refusal.code is Code.ERROR:
        raise SchedulingError(f'running "{plugin.name}" filter plugin: {refusal.message}')


class _Told(Plugin):
    """Refusals of single nodes that were found out by trying, or by asking extenders."""

    name = ""

    def refusal(self, state: Sequence[Refusal], number: int) -> Refusal:
        return state[number - 1]


def _told(size: int, refusals: Sequence[tuple[int, Refusal]]) -> tuple[Plugin, Any, NDArray[np.int16]]:
    """As a plugin would answer, with rows and what is told of them."""
    different = list(dict.fromkeys(one for _, one in refusals))
    answers = np.zeros(size, np.int16)
    for row, one in refusals:
        answers[row] = different.index(one) + 1
    return _Told.__new__(_Told), different, answers
