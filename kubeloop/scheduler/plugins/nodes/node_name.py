# SPDX-License-Identifier: Apache-2.0
"""NodeName: restricts a pod with spec.nodeName to that node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import NAME_FIELD, ClusterState, Rows
from kubeloop.scheduler.cache.labels import LabelPredicate
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import SKIP, ClusterEventWithHint, Plugin, Skip, unresolvable_status
from kubeloop.scheduler.queue.cluster_event import NODE, ActionType


class NodeName(Plugin):
    """Rejects all nodes but the named one."""

    name = "NodeName"
    depends_on_pods = False
    filter_statuses = (unresolvable_status(name, "node(s) didn't match the requested node name"),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that may help."""
        return (ClusterEventWithHint(NODE, ActionType.ADD),)

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> LabelPredicate | Skip:
        """Return a predicate on the node name; SKIP if the pod names no node."""
        wanted = pod.node_name
        return LabelPredicate(cluster.names.column(NAME_FIELD), lambda name: name == wanted) if wanted else SKIP

    def filter(self, state: LabelPredicate, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for all other nodes."""
        return (~state.evaluate(rows)).astype(np.int16)
