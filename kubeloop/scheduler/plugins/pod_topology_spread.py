# SPDX-License-Identifier: Apache-2.0
"""PodTopologySpread: spreads matching pods evenly over topology domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ALL, ClusterState, Numbers, Rows
from kubeloop.scheduler.cache.domains import HOSTNAME, TopologyDomains
from kubeloop.scheduler.cache.node_terms import RequiredNodeAffinity
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.cache.selector_counts import PodSelection
from kubeloop.scheduler.cache.taint_sets import untolerated_taint_function
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import (
    MAX_SCORE,
    SKIP,
    ClusterEventWithHint,
    Plugin,
    Skip,
    unresolvable_status,
    unschedulable_status,
)
from kubeloop.scheduler.plugins.shared.topology_constraints import (
    PodConstraints,
    TopologySpreadConstraintInfo,
    topology_spread_hints,
)
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, TARGET_POD, ActionType

_NO_LABEL, _TOO_MANY = 1, 2


class _FilterConstraint(NamedTuple):
    """DoNotSchedule constraint: masks of the rows, and the counts behind them."""

    constraint: TopologySpreadConstraintInfo
    has_label: NDArray[np.bool_]
    exceeds_skew: NDArray[np.bool_]
    pods_in_domain: Numbers  # matching pods in each row's domain
    min_match: int


class _ScoreConstraints(NamedTuple):
    """ScheduleAnyway constraints with their counts."""

    constraints: Sequence[TopologySpreadConstraintInfo]
    counts: Sequence[Numbers]  # matching pods, by row
    counted: Sequence[NDArray[np.bool_]]  # rows whose pods count
    all_labels: NDArray[np.bool_] | None  # rows that have every topology key, if required


class PodTopologySpread(Plugin):
    """Compares the number of matching pods between topology domains."""

    name = "PodTopologySpread"
    is_node_local = False
    filter_statuses = (
        unresolvable_status(name, "node(s) didn't match pod topology spread constraints (missing required label)"),
        unschedulable_status(name, "node(s) didn't match pod topology spread constraints"),
    )

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._constraints = PodConstraints(handle, args)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of pods and nodes that may help."""
        hints = topology_spread_hints(self._constraints)
        return (
            ClusterEventWithHint(ASSIGNED_POD, ActionType.ADD | ActionType.POD_LABEL | ActionType.DELETE, hints.pod),
            ClusterEventWithHint(TARGET_POD, ActionType.POD_TOLERATION | ActionType.POD_LABEL, hints.itself),
            ClusterEventWithHint(
                NODE, ActionType.ADD | ActionType.DELETE | ActionType.NODE_LABEL | ActionType.NODE_TAINT, hints.node
            ),
        )

    # Filtering.

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> list[_FilterConstraint] | Skip:
        """Return the state of the DoNotSchedule constraints; SKIP without any."""
        constraints = self._constraints.do_not_schedule(pod)
        if not constraints:
            return SKIP
        everywhere = _have_all(constraints, cluster)
        return [self._hard(one, pod, cluster, everywhere) for one in constraints]

    def filter(self, state: list[_FilterConstraint], cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return the first violated constraint: label missing, or skew exceeded."""
        answers = np.zeros(len(cluster.in_use[rows]), np.int16)
        for one in reversed(state):  # the first violated constraint is reported
            answers[one.exceeds_skew[rows]] = _TOO_MANY
            answers[~one.has_label[rows]] = _NO_LABEL
        return answers

    def _hard(
        self, one: TopologySpreadConstraintInfo, pod: PodInfo, cluster: ClusterState, everywhere: NDArray[np.bool_]
    ) -> _FilterConstraint:
        domains = TopologyDomains(cluster, one.topology_key)
        counted = everywhere & _included(one, pod, cluster)
        sums = domains.sums(_counts(one, pod, cluster), counted)
        present = domains.domains_with_nodes(counted)
        number = int(present.sum())
        least = 0 if number < one.min_domains else int(sums[:-1][present].min())
        itself = int(one.selector.matches(pod.signature.labels))
        here = sums[domains.ids]
        return _FilterConstraint(one, domains.has_domain, here + itself - least > one.max_skew, here, least)

    # Scoring.

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> _ScoreConstraints | Skip:
        """Return the state of the ScheduleAnyway constraints; SKIP without any."""
        constraints = self._constraints.schedule_anyway(pod)
        if not constraints:
            return SKIP
        demanded = self._constraints.requires_all_topologies(pod)
        all_labels = _have_all(constraints, cluster) if demanded else None
        counted = [_included(one, pod, cluster) for one in constraints]
        if all_labels is not None:
            counted = [one & all_labels for one in counted]
        return _ScoreConstraints(constraints, [_counts(one, pod, cluster) for one in constraints], counted, all_labels)

    def score(self, state: _ScoreConstraints, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the weighted number of matching pods in the node's domains."""
        taking_part = None if state.all_labels is None else state.all_labels[rows]
        total = np.zeros(len(cluster.in_use[rows]), np.float64)
        for one, counts, counted in zip(state.constraints, state.counts, state.counted, strict=True):
            total += _score(one, counts, counted, cluster, rows, taking_part)
        if taking_part is not None:
            total[~taking_part] = 0.0
        return np.floor(total + 0.5).astype(np.int64)

    def normalize_score(
        self, state: _ScoreConstraints, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows
    ) -> NDArray[np.int64]:
        """Scale the scores to 0…100, fewer pods being better."""
        taking_part = np.ones(len(scores), bool) if state.all_labels is None else state.all_labels[rows]
        known = scores[taking_part]
        if not len(known):
            return np.zeros_like(scores)
        least, most = int(known.min()), int(known.max())
        if most == 0:
            return np.where(taking_part, MAX_SCORE, 0).astype(np.int64)
        return np.where(taking_part, MAX_SCORE * (most + least - scores) // most, 0)


def _score(
    one: TopologySpreadConstraintInfo,
    counts: Numbers,
    counted: NDArray[np.bool_],
    cluster: ClusterState,
    rows: Rows,
    taking_part: NDArray[np.bool_] | None,
) -> NDArray[np.float64]:
    """Return the weighted count of matching pods in each node's domain; weights grow with the number of domains."""
    domains = TopologyDomains(cluster, one.topology_key)
    ids = domains.ids[rows]
    among = ids if taking_part is None else ids[taking_part]
    if one.topology_key == HOSTNAME:
        size, here = len(among), counts[rows]
    else:
        size, here = domains.count_distinct(among), domains.sums(counts, counted)[ids]
    found = here * np.log(size + 2) + (one.max_skew - 1)
    return np.where(ids >= 0, found, 0.0)


def _counts(one: TopologySpreadConstraintInfo, pod: PodInfo, cluster: ClusterState) -> Numbers:
    """Return the number of matching pods that are not terminating by row; an empty selector counts none."""
    if one.selector.is_empty:
        return np.zeros(cluster.size, np.int64)
    return cluster.selector_counts.counts(
        PodSelection(frozenset((pod.signature.namespace,)), one.selector, exclude_terminating=True)
    )


def _have_all(constraints: Sequence[TopologySpreadConstraintInfo], cluster: ClusterState) -> NDArray[np.bool_]:
    found = cluster.in_use.copy()
    for one in constraints:
        found &= TopologyDomains(cluster, one.topology_key).has_domain
    return found


def _included(one: TopologySpreadConstraintInfo, pod: PodInfo, cluster: ClusterState) -> NDArray[np.bool_]:
    """Return a mask of the nodes that count, as far as the constraint honors affinity and taints."""
    found = cluster.in_use
    if one.honors_affinity:
        required = RequiredNodeAffinity.for_pod(pod, cluster)
        if not required.is_empty:
            found = found & required.match(ALL)
    if one.honors_taints:
        found = found & (untolerated_taint_function(pod.pod.spec.tolerations).evaluate(cluster, ALL) == 0)
    return found
