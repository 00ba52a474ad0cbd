# SPDX-License-Identifier: Apache-2.0
"""NodeAffinity: filters by node selector and required node affinity, and scores by preferred terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated import core_v1
from kubeloop.api.generated.core_v1 import (
    PreferredSchedulingTerm,
)
from kubeloop.api.pods.placement import node_affinity_matches, node_selector_matches
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.node_terms import (
    NodeSelectorMatcher,
    NodeSelectorTermMatcher,
    RequiredNodeAffinity,
    node_names_of_selector,
)
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.normalize import default_normalize_score
from kubeloop.scheduler.framework.plugin import SKIP, ClusterEventWithHint, Plugin, Skip, unresolvable_status
from kubeloop.scheduler.framework.status import PreFilterResult, Status
from kubeloop.scheduler.queue.cluster_event import NODE, ActionType


class _State(NamedTuple):
    """Required affinity of the pod, and the one added by the profile."""

    required_affinity: RequiredNodeAffinity
    added_affinity: NodeSelectorMatcher | None


class NodeAffinity(Plugin):
    """Rejects nodes that do not match; the profile may add an affinity."""

    name = "NodeAffinity"
    depends_on_pods = False
    filter_statuses = (
        unresolvable_status(name, "node(s) didn't match scheduler-enforced node affinity"),
        unresolvable_status(name, "node(s) didn't match Pod's node affinity/selector"),
    )

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        added = msgspec.convert(args.get("addedAffinity") or {}, core_v1.NodeAffinity)
        self._added = added.required_during_scheduling_ignored_during_execution
        self._added_preferences = added.preferred_during_scheduling_ignored_during_execution

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the node events that may help."""
        return (
            ClusterEventWithHint(NODE, ActionType.ADD | ActionType.NODE_LABEL, self._is_schedulable_after_node_change),
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> _State | PreFilterResult | Skip | Status:
        """Return the compiled affinity, restricted to nodes that it selects by name; SKIP without any."""
        required = pod.signature.node_affinity.required_during_scheduling_ignored_during_execution
        if required is None and self._added is None and not pod.pod.spec.node_selector:
            return SKIP
        state = _State(
            RequiredNodeAffinity.for_pod(pod, cluster), NodeSelectorMatcher.from_selector(self._added, cluster)
        )
        names = None if required is None else node_names_of_selector(required)
        if names is None:
            return state
        return PreFilterResult(names, state) if names else unresolvable_status(self.name, "pod affinity terms conflict")

    def filter(self, state: _State, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for nodes that violate the added affinity, 2 for those that violate the pod's."""
        answers = np.where(state.required_affinity.match(rows), 0, 2).astype(np.int16)
        if state.added_affinity is not None:
            answers[~state.added_affinity.match(rows)] = 1
        return answers

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> list[tuple[int, NodeSelectorTermMatcher]] | Skip:
        """Return the preferred terms with their weights; SKIP without any."""
        own = pod.signature.node_affinity.preferred_during_scheduling_ignored_during_execution
        preferences = (*self._added_preferences, *own)
        return [_weighted_term(one, cluster) for one in preferences] if preferences else SKIP

    def score(
        self, state: list[tuple[int, NodeSelectorTermMatcher]], cluster: ClusterState, rows: Rows
    ) -> NDArray[np.int64]:
        """Return the sum of the weights of the matching terms."""
        total = np.zeros(len(cluster.in_use[rows]), np.int64)
        for weight, test in state:
            total += weight * test.match(rows)
        return total

    def normalize_score(
        self, state: Any, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows
    ) -> NDArray[np.int64]:
        """Scale the scores to 0…100."""
        return default_normalize_score(scores)

    def _is_schedulable_after_node_change(self, pod: PodInfo, old: Any, new: Any) -> bool:
        if self._added is not None and not node_selector_matches(self._added, new):
            return False
        spec = pod.pod.spec
        return node_affinity_matches(spec, new) and (old is None or not node_affinity_matches(spec, old))


def _weighted_term(one: PreferredSchedulingTerm, cluster: ClusterState) -> tuple[int, NodeSelectorTermMatcher]:
    return one.weight, NodeSelectorTermMatcher(one.preference, cluster)
