"""NodeName: restricts a pod with spec.nodeName to that node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import NAME_FIELD, ClusterState, Rows
from kubeloop.scheduler.cache.labels import Verdicts
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import SKIP, Interest, Plugin, Skip, unresolvable
from kubeloop.scheduler.queue.cluster_event import NODE, Action


class NodeName(Plugin):
    """Rejects all nodes but the named one."""

    name = "NodeName"
    follows_pods = False
    refusals = (unresolvable(name, "node(s) didn't match the requested node name"),)

    def interests(self) -> Sequence[Interest]:
        """Return the events that may help."""
        return (Interest(NODE, Action.ADD),)

    def prefilter(self, pod: PodInfo, cluster: ClusterState) -> Verdicts | Skip:
        """Return a predicate on the node name; SKIP if the pod names no node."""
        wanted = pod.node_name
        return Verdicts(cluster.names.column(NAME_FIELD), lambda name: name == wanted) if wanted else SKIP

    def filter(self, state: Verdicts, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for all other nodes."""
        return (~state.of(rows)).astype(np.int16)
