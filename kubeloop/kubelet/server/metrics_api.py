# SPDX-License-Identifier: Apache-2.0
"""metrics.k8s.io: usage of nodes and pods, for `kubectl top` and the autoscaler, from the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.kinds import Resource
from kubeloop.api.pods.usage import NODES, PODS, MetricsWindow, metrics_object, total_usage
from kubeloop.clock import Clock
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.runtime import ContainerUsage, Runtime
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE

# Usage of a node without pods.
NODE_BASE_USAGE = ContainerUsage(50 * 10**6, 256 * 2**20)


class MetricsGroup:
    """API group whose objects are computed on request."""

    resources = (NODES, PODS)

    def __init__(self, pods: Informer, served_nodes: ServedNodes, runtime: Runtime, clock: Clock) -> None:
        self._pods = pods
        self._served_nodes = served_nodes
        self._runtime = runtime
        self._clock = clock

    def objects(self, resource: Resource, namespace: str, name: str = "") -> Sequence[Mapping[str, Any]]:
        """Return the metrics objects of a resource, optionally of one name."""
        made: Callable[[Any], dict[str, Any] | None]
        if resource.plural == "nodes":
            made, found = self._node, self._named_nodes(name)
        else:
            made, found = self._pod, self._named_pods(namespace, name)
        return [shown for one in found if (shown := made(one)) is not None]

    def _named_nodes(self, name: str) -> Iterable[Any]:
        if not name:
            return self._served_nodes
        node = self._served_nodes.get(name)
        return () if node is None else (node,)

    def _named_pods(self, namespace: str, name: str) -> Iterable[Any]:
        if not name:
            return self._pods.list(namespace)
        pod = self._pods.get(namespace, name)
        return () if pod is None else (pod,)

    def _node(self, node: Node) -> dict[str, Any] | None:
        """Return the metrics of a node; None for one that is not reachable."""
        if self._served_nodes.state_of(node):
            return None
        usages = [NODE_BASE_USAGE]
        for pod in self._pods.by_index(NODE, node.metadata.name):
            usages += self._runtime.usage(pod).values()
        return metrics_object(node, MetricsWindow(self._clock.now()), {"usage": total_usage(usages)})

    def _pod(self, pod: Pod) -> dict[str, Any] | None:
        if self._served_nodes.get_reachable(pod.spec.node_name) is None:
            return None
        usages = self._runtime.usage(pod)
        if not usages:
            return None
        containers = [{"name": name, "usage": total_usage([usage])} for name, usage in usages.items()]
        return metrics_object(pod, MetricsWindow(self._clock.now()), {"containers": containers})
