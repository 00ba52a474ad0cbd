"""Restores pod statuses that another client has overwritten.

Each heartbeat of a node checks only pods that were written by others since the agent last found them in sync.
"""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.api.generated.core_v1 import Node
from kubeloop.kubelet.sync.pod_worker import PodWorker
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE
from kubeloop.runtime.objects.keys import ObjectKey, key_of


class StatusReconciler:
    """Checks the pods of a node at its heartbeat; `wake` queues a pod for sync."""

    def __init__(self, pods: Informer, worker: PodWorker) -> None:
        self._pods = pods
        self._worker = worker
        self._doubted: dict[str, dict[str, str]] = {}  # by node: uid to resourceVersion, if out of sync
        self.wake: Callable[[ObjectKey], None] = lambda _: None

    def look(self, node: Node) -> None:
        """Mark pods as stale that were out of sync at two consecutive heartbeats; before, the cache may lag."""
        before = self._doubted.pop(node.metadata.name, None) or {}
        doubted: dict[str, str] = {}
        for pod in self._pods.by_index(NODE, node.metadata.name):
            if self._worker.agrees(pod):
                continue
            uid, revision = pod.metadata.uid, pod.metadata.resource_version
            if before.get(uid) == revision:
                self._worker.contradict(pod)
                self.wake(key_of(pod))
            else:
                doubted[uid] = revision
        if doubted:
            self._doubted[node.metadata.name] = doubted
