# SPDX-License-Identifier: Apache-2.0
"""NodePorts: rejects nodes on which a host port of the pod is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import ANY_ADDRESS, HostPort, PodInfo
from kubeloop.scheduler.framework.plugin import SKIP, ClusterEventWithHint, Plugin, Skip, unschedulable_status
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, ActionType


class NodePorts(Plugin):
    """Rejects nodes with conflicting host ports."""

    name = "NodePorts"
    filter_statuses = (unschedulable_status(name, "node(s) didn't have free ports for the requested pod ports"),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that may help."""
        return (
            ClusterEventWithHint(ASSIGNED_POD, ActionType.DELETE, self._is_schedulable_after_assigned_pod_deleted),
            ClusterEventWithHint(NODE, ActionType.ADD),
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> tuple[HostPort, ...] | Skip:
        """Return the host ports of the pod; SKIP without any."""
        return pod.signature.host_ports or SKIP

    def filter(self, state: tuple[HostPort, ...], cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for nodes with a conflict."""
        answers = np.zeros(len(cluster.in_use[rows]), np.int16)
        for port in state:
            taken = cluster.ports.conflicts(port, rows)
            if taken is not None:
                answers[taken] = 1
        return answers

    def _is_schedulable_after_assigned_pod_deleted(self, pod: PodInfo, old: Any, new: Any) -> bool:
        if not old.spec.node_name and not old.status.nominated_node_name:
            return False
        freed = self.handle.signatures.signature_of(old).host_ports
        return any(host_ports_conflict(wanted, port) for wanted in pod.signature.host_ports for port in freed)


def host_ports_conflict(one: HostPort, other: HostPort) -> bool:
    """Return True if two host ports conflict."""
    return one[1:] == other[1:] and (ANY_ADDRESS in (one[0], other[0]) or one[0] == other[0])
