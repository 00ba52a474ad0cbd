"""NodeName: a pod that names its node runs there or nowhere."""

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
    """Refuses all nodes but the one that is named."""

    name = "NodeName"
    follows_pods = False
    refusals = (unresolvable(name, "node(s) didn't match the requested node name"),)

    def interests(self) -> Sequence[Interest]:
        return (Interest(NODE, Action.ADD),)

    def prefilter(self, pod: PodInfo, cluster: ClusterState) -> Verdicts | Skip:
        wanted = pod.node_name
        return Verdicts(cluster.names.column(NAME_FIELD), lambda name: name == wanted) if wanted else SKIP

    def filter(self, state: Verdicts, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        return (~state.of(rows)).astype(np.int16)
