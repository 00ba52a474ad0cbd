# SPDX-License-Identifier: Apache-2.0
"""Graceful node shutdown: terminates the pods of a node, critical ones last, each group within its grace period."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_active
from kubeloop.clock import Clock
from kubeloop.kubelet.eviction.eviction_rank import CRITICAL_PRIORITY
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.sync.pod_state import TerminationReason
from kubeloop.kubelet.sync.pod_states import PodStates
from kubeloop.kubelet.sync.termination import grace_period_seconds
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE

# Total grace period in seconds, and the part reserved for critical pods; common kubelet settings.
SHUTDOWN_GRACE_PERIOD_SECONDS, SHUTDOWN_GRACE_PERIOD_CRITICAL_PODS_SECONDS = 30.0, 10.0
_TERMINATED = ("Terminated", "Pod was terminated in response to imminent node shutdown.")


class ShutdownStatus:
    """Tells whether a real node is shutting down."""

    def __init__(self) -> None:
        self.is_shutting_down = False

    def set_shutting_down(self, is_shutting_down: bool) -> None:
        """Change the status of the node."""
        self.is_shutting_down = is_shutting_down


class NodeShutdownManager:
    """Shutdown manager of simulated nodes, called for each node at its heartbeat."""

    def __init__(self, pods: Informer, served_nodes: ServedNodes, states: PodStates, clock: Clock) -> None:
        self._pods = pods
        self._served_nodes = served_nodes
        self._states = states
        self._clock = clock
        self._began: dict[str, datetime] = {}

    def sync_node(self, node: Node) -> None:
        """Terminate the pods of a node that is shutting down."""
        name = node.metadata.name
        if not self._served_nodes.is_shutting_down(node):
            if self._began:
                self._began.pop(name, None)
            return
        now = self._clock.now()
        began = self._began.setdefault(name, now)
        running: list[Pod] = [pod for pod in self._pods.by_index(NODE, name) if is_active(pod)]
        others = [pod for pod in running if not _is_critical(pod)]
        self._terminate(others, SHUTDOWN_GRACE_PERIOD_SECONDS - SHUTDOWN_GRACE_PERIOD_CRITICAL_PODS_SECONDS)
        if not others or now - began >= timedelta(
            seconds=SHUTDOWN_GRACE_PERIOD_SECONDS - SHUTDOWN_GRACE_PERIOD_CRITICAL_PODS_SECONDS
        ):
            self._terminate([pod for pod in running if _is_critical(pod)], SHUTDOWN_GRACE_PERIOD_CRITICAL_PODS_SECONDS)

    def _terminate(self, pods: list[Pod], longest: float) -> None:
        for pod in pods:
            reason = TerminationReason(
                *_TERMINATED,
                disruption="TerminationByKubelet",
                grace_period_seconds=min(grace_period_seconds(pod), longest),
            )
            self._states.evict(pod, reason)


def _is_critical(pod: Pod) -> bool:
    return (pod.spec.priority or 0) >= CRITICAL_PRIORITY
