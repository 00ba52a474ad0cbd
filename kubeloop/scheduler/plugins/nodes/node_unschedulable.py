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
from kubeloop.scheduler.framework.plugin import SKIP, Interest, Plugin, Skip, unresolvable
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, Action

_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    """Rejects cordoned nodes."""

    name = "NodeUnschedulable"
    follows_pods = False
    refusals = (unresolvable(name, "node(s) were unschedulable"),)

    def interests(self) -> Sequence[Interest]:
        """Return the events of nodes and of the pod that may help."""
        return (
            Interest(NODE, Action.ADD | Action.NODE_TAINT, _was_opened),
            Interest(TARGET_POD, Action.POD_TOLERATION, lambda _, __, new: _is_tolerant(new)),
        )

    def prefilter(self, pod: PodInfo, cluster: ClusterState) -> Skip | None:
        """Return SKIP for pods that tolerate the taint."""
        return SKIP if _is_tolerant(pod.pod) else None

    def filter(self, state: Any, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for cordoned nodes."""
        return cluster.unschedulable[rows].astype(np.int16)


def _is_tolerant(pod: Pod) -> bool:
    return any(tolerates(one, _TAINT) for one in pod.spec.tolerations)


def _was_opened(_: PodInfo, old: Any, new: Any) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)
