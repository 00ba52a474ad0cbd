# SPDX-License-Identifier: Apache-2.0
"""Eviction manager: evicts pods of nodes under pressure one at a time, and pods over their storage limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_active
from kubeloop.clock import Clock
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.eviction.eviction_rank import (
    EVICTED,
    RESOURCES,
    build_eviction,
    has_storage_limit,
    rank_pods,
    storage_limit_eviction,
)
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.runtime import Runtime
from kubeloop.kubelet.sync.pod_state import TerminationReason
from kubeloop.kubelet.sync.pod_states import PodStates
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE
from kubeloop.runtime.objects.keys import ObjectKey

# Poll interval and timeout for evicted pods to terminate; the next pod is evicted afterwards.
POD_CLEANUP_POLL_SECONDS, POD_CLEANUP_TIMEOUT_SECONDS = 1.0, 30.0
_STORAGE_LIMITED_INDEX = "node of a pod with a storage limit"


class _PendingEvictions(NamedTuple):
    """Evicted pods that are terminating, by uid."""

    uids: tuple[str, ...]
    since: float


class EvictionManager:
    """Eviction manager, called for each node at its heartbeat.

    `requeue_node` queues a node after some seconds.
    """

    def __init__(
        self,
        pods: Informer,
        served_nodes: ServedNodes,
        runtime: Runtime,
        states: PodStates,
        events: PodEvents,
        requeue_node: Callable[[ObjectKey, float], None],
    ) -> None:
        self._pods = pods
        pods.add_indexer(_STORAGE_LIMITED_INDEX, _node_if_limited)
        self._served_nodes = served_nodes
        self._runtime = runtime
        self._states = states
        self._events = events
        self._clock: Clock = served_nodes.clock
        self._given_up: dict[str, _PendingEvictions] = {}  # by node
        self._requeue_node = requeue_node

    def synchronize(self, node: Node) -> None:
        """Evict pods of a node if required, unless earlier evictions are still in progress."""
        name = node.metadata.name
        if name in self._given_up and not self._are_evictions_done(name):
            self._requeue(name)
            return
        uids = self._evict_over_storage_limits(name) or self._evict_for_pressure(node)
        if uids:
            self._given_up[name] = _PendingEvictions(uids, self._clock.monotonic())
            self._requeue(name)

    def _requeue(self, name: str) -> None:
        self._requeue_node(ObjectKey("", name), POD_CLEANUP_POLL_SECONDS)

    def _are_evictions_done(self, name: str) -> bool:
        """Return True if the earlier evictions are finished or have timed out."""
        before = self._given_up[name]
        too_long = self._clock.monotonic() - before.since >= POD_CLEANUP_TIMEOUT_SECONDS
        if not too_long and not all(self._states.is_terminated(uid) for uid in before.uids):
            return False
        del self._given_up[name]
        return True

    def _evict_over_storage_limits(self, name: str) -> tuple[str, ...]:
        """Evict all pods over their ephemeral storage limits; return their uids."""
        gone = []
        for pod in self._pods.by_index(_STORAGE_LIMITED_INDEX, name):
            runtime = self._runtime
            verdict = (
                storage_limit_eviction(pod, runtime.usage(pod), runtime.volume_usage(pod)) if is_active(pod) else None
            )
            if verdict is not None and self._evict(pod, verdict, {}):
                gone.append(pod.metadata.uid)
        return tuple(gone)

    def _evict_for_pressure(self, node: Node) -> tuple[str, ...]:
        """Evict the first pod of the ranking if the node is under pressure; return its uid."""
        condition = self._served_nodes.take_urgent_pressure(node)
        if condition is None:
            return ()
        self._events.record_reclaiming(node, RESOURCES[condition])
        running: list[Pod] = [pod for pod in self._pods.by_index(NODE, node.metadata.name) if is_active(pod)]
        shortage = self._served_nodes.shortage_of(node, condition)
        for pod in rank_pods(running, condition, self._runtime.usage):
            verdict, annotations = build_eviction(pod, condition, self._runtime.usage(pod), shortage)
            if self._evict(pod, verdict, annotations):
                return (pod.metadata.uid,)
        return ()

    def _evict(self, pod: Pod, verdict: TerminationReason, annotations: Mapping[str, str]) -> bool:
        if not self._states.evict(pod, verdict):
            return False
        self._events.record_rejected(pod, EVICTED, verdict.message, annotations)
        return True


def _node_if_limited(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name and has_storage_limit(pod) else ()
