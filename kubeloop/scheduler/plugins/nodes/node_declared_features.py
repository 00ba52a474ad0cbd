# SPDX-License-Identifier: Apache-2.0
"""NodeDeclaredFeatures: filters nodes that declare the features the pod requires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import SKIP, ClusterEventWithHint, Plugin, Skip, unresolvable_status
from kubeloop.scheduler.plugins.shared.declared_features import required_node_features
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, ActionType


class NodeDeclaredFeatures(Plugin):
    """Compares the features a pod uses with those in the node status."""

    name = "NodeDeclaredFeatures"
    depends_on_pods = False
    filter_statuses = (unresolvable_status(name, "node(s) didn't match Pod's required features"),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of nodes and of the pod that may help."""
        return (
            ClusterEventWithHint(
                NODE, ActionType.ADD | ActionType.NODE_DECLARED_FEATURE, _is_schedulable_after_node_change
            ),
            ClusterEventWithHint(TARGET_POD, ActionType.ANY_UPDATE, _is_schedulable_after_target_pod_update),
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> frozenset[str] | Skip:
        """Return the required features; SKIP without any."""
        return required_node_features(pod.pod.spec) or SKIP

    def filter(self, state: frozenset[str], cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for nodes that do not declare all required features."""
        numbers = np.arange(cluster.size)[rows]
        nodes = (cluster.nodes.get(int(row)) for row in numbers)
        return np.array(
            [one is not None and not state.issubset(one.status.declared_features) for one in nodes], np.int16
        )


def _is_schedulable_after_node_change(_: PodInfo, old: Node | None, new: Node) -> bool:
    return old is None or old.status.declared_features != new.status.declared_features


def _is_schedulable_after_target_pod_update(_: PodInfo, old: Any, new: Any) -> bool:
    return required_node_features(old.spec) != required_node_features(new.spec)
