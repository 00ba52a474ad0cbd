"""The easy way to write a plugin: one pod, one node, a reason or a number. It is asked node by node.

Offer it by an entry point of the group `kubeloop.scheduler.plugins`, and enable it in a profile:

    class NotOnFridays(OneNodePlugin):
        name = "NotOnFridays"

        def why_not(self, pod, node):
            return "node(s) rest on Fridays" if self.handle.clock.now().weekday() == 4 else ""
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import SKIP, Plugin, Skip, unresolvable
from kubeloop.scheduler.framework.status import Refusal


class _State:
    """A pod, and the reasons that were given so far."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.reasons: list[str] = []

    def number(self, reason: str) -> int:
        if not reason:
            return 0
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason) + 1


class OneNodePlugin(Plugin):
    """Override `why_not`, `liking`, or both."""

    local = False  # nobody knows what it looks at besides the node

    def why_not(self, pod: Pod, node: Node) -> str:
        """Why the node will not do; empty if it will."""
        return ""

    def liking(self, pod: Pod, node: Node) -> int:
        """From 0 to 100."""
        return 0

    def prefilter(self, pod: PodInfo, cluster: ClusterState) -> _State | Skip:
        return SKIP if type(self).why_not is OneNodePlugin.why_not else _State(pod.pod)

    def filter(self, state: _State, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        numbers = np.arange(cluster.size)[rows]
        nodes = (cluster.nodes.get(int(row)) for row in numbers)
        answers = [0 if node is None else state.number(self.why_not(state.pod, node)) for node in nodes]
        return np.array(answers, np.int16)

    def refusal(self, state: _State, number: int) -> Refusal:
        return unresolvable(self.name, state.reasons[number - 1])

    def prescore(self, pod: PodInfo, cluster: ClusterState) -> Pod | Skip:
        return SKIP if type(self).liking is OneNodePlugin.liking else pod.pod

    def score(self, state: Pod, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        numbers = np.arange(cluster.size)[rows]
        return np.array([self.liking(state, cluster.nodes[int(row)]) for row in numbers], np.int64)
