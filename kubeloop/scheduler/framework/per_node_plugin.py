# SPDX-License-Identifier: Apache-2.0
"""Base class for simple plugins that filter and score one pod on one node at a time.

Offer such a plugin by an entry point of the group `kubeloop.scheduler.plugins`, and enable it in a profile:

    class NotOnFridays(PerNodePlugin):
        name = "NotOnFridays"

        def filter_node(self, pod, node):
            return "node(s) rest on Fridays" if self.handle.clock.now().weekday() == 4 else ""
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import SKIP, Plugin, Skip, unresolvable_status
from kubeloop.scheduler.framework.status import Status


class _State:
    """Filter state: the pod and the distinct reasons given so far."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.reasons: list[str] = []

    def number_reason(self, reason: str) -> int:
        """Return the 1-based number of a reason, adding it if it is new; 0 for an empty reason."""
        if not reason:
            return 0
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason) + 1


class PerNodePlugin(Plugin):
    """Plugin that is called per node; override `why_not`, `liking`, or both."""

    is_node_local = False  # it may read state other than the node

    def filter_node(self, pod: Pod, node: Node) -> str:
        """Return the reason for rejecting the node; empty if the node is feasible."""
        return ""

    def score_node(self, pod: Pod, node: Node) -> int:
        """Return the score of the node, from 0 to 100."""
        return 0

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> _State | Skip:
        """Return the filter state; SKIP if the filter method is not overridden."""
        return SKIP if type(self).filter_node is PerNodePlugin.filter_node else _State(pod.pod)

    def filter(self, state: _State, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 0 for each feasible node, else the number of its reason."""
        numbers = np.arange(cluster.size)[rows]
        nodes = (cluster.nodes.get(int(row)) for row in numbers)
        answers = [0 if node is None else state.number_reason(self.filter_node(state.pod, node)) for node in nodes]
        return np.array(answers, np.int16)

    def filter_status(self, state: _State, number: int) -> Status:
        """Return an unresolvable status with the numbered reason."""
        return unresolvable_status(self.name, state.reasons[number - 1])

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> Pod | Skip:
        """Return the pod as score state; SKIP if the score method is not overridden."""
        return SKIP if type(self).score_node is PerNodePlugin.score_node else pod.pod

    def score(self, state: Pod, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the score of each node."""
        numbers = np.arange(cluster.size)[rows]
        return np.array([self.score_node(state, cluster.nodes[int(row)]) for row in numbers], np.int64)
