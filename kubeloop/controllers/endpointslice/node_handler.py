# SPDX-License-Identifier: Apache-2.0
"""Handles node events: missing nodes that appear, changed zones, and the balance between zones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.controllers.endpointslice.desired_slices import ZONE
from kubeloop.controllers.endpointslice.topology_cache import TopologyCache
from kubeloop.controllers.endpointslice.zones import is_ready
from kubeloop.controllers.shared.endpoints.selection import ServiceSelectorIndex
from kubeloop.runtime.causes.cause import Origin
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE, node_name_of
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue

TOPOLOGY_CHECK: Final = ObjectKey("", "balance of zones")  # not a Service key: those have a namespace


class NodeEventHandler:
    """Node event handler that enqueues the affected Services."""

    def __init__(
        self, queue: WorkQueue[ObjectKey], pods: Informer, selection: ServiceSelectorIndex, topology: TopologyCache
    ) -> None:
        pods.add_indexer(NODE, node_name_of)
        self._queue = queue
        self._pods = pods
        self._selection = selection
        self._topology = topology
        self._missed: dict[str, set[ObjectKey]] = {}  # Services with pods on missing nodes, by node

    def record_missing_nodes(self, key: ObjectKey, pods: Iterable[Pod]) -> None:
        """Record a Service whose pods were skipped because their nodes are unknown."""
        for pod in pods:
            self._missed.setdefault(pod.spec.node_name, set()).add(key)

    def on_add(self, node: Node) -> None:
        """Schedule a check of the zones, and enqueue the Services that waited for the node."""
        self._rebalance(node)
        self._wake(self._missed.pop(node.metadata.name, ()), node)

    def on_update(self, old: Node, new: Node) -> None:
        """Schedule a check of the zones, and enqueue the Services of a node whose zone has changed."""
        rezoned = old.metadata.labels.get(ZONE) != new.metadata.labels.get(ZONE)
        if rezoned or is_ready(old) != is_ready(new):
            self._rebalance(new)
        if rezoned:
            on_it: Iterable[Pod] = self._pods.by_index(NODE, new.metadata.name)
            found = (self._selection.services_of(one.metadata.namespace, one.metadata.labels) for one in on_it)
            self._wake(set[ObjectKey]().union(*found), new)

    def on_delete(self, node: Node) -> None:
        """Schedule a check of the zones."""
        self._rebalance(node)

    def rebalance(self) -> None:
        """Enqueue the Services that are out of balance."""
        for key in self._topology.overloaded_services():
            self._queue.add(key)

    def _rebalance(self, node: Node) -> None:
        self._topology.mark_stale()
        self._wake((TOPOLOGY_CHECK,), node)

    def _wake(self, keys: Iterable[ObjectKey], node: Node) -> None:
        meta = node.metadata
        for key in sorted(keys):
            self._queue.add(key, (Origin("Node", "", meta.name, meta.resource_version, "MODIFIED"),))
