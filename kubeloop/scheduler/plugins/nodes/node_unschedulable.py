# SPDX-License-Identifier: Apache-2.0
"""NodeUnschedulable: rejects cordoned nodes for pods that do not tolerate it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Pod, Taint
from kubeloop.api.pods.placement import tolerates
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import SKIP, ClusterEventWithHint, Plugin, Skip, unresolvable_status
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, ActionType

_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    """Rejects cordoned nodes."""

    name = "NodeUnschedulable"
    depends_on_pods = False
    filter_statuses = (unresolvable_status(name, "node(s) were unschedulable"),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of nodes and of the pod that may help."""
        return (
            ClusterEventWithHint(NODE, ActionType.ADD | ActionType.NODE_TAINT, _is_schedulable_after_node_change),
            ClusterEventWithHint(
                TARGET_POD, ActionType.POD_TOLERATION, lambda _, __, new: _tolerates_unschedulable(new)
            ),
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> Skip | None:
        """Return SKIP for pods that tolerate the taint."""
        return SKIP if _tolerates_unschedulable(pod.pod) else None

    def filter(self, state: Any, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for cordoned nodes."""
        return cluster.unschedulable[rows].astype(np.int16)


def _tolerates_unschedulable(pod: Pod) -> bool:
    return any(tolerates(one, _TAINT) for one in pod.spec.tolerations)


def _is_schedulable_after_node_change(_: PodInfo, old: Any, new: Any) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)
