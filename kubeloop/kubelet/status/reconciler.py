"""Sees to it that statuses stay what the agent says: what others change of its own is put right, as a kubelet does.

Every beat of a node looks at those pods alone that somebody else has written since the agent last agreed with them.
"""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.api.generated.core_v1 import Node
from kubeloop.kubelet.sync.pod_worker import PodWorker
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE
from kubeloop.runtime.objects.keys import ObjectKey, key_of


class Disputes:
    """Called for each node at its beat. `wake` lets a pod have its turn."""

    def __init__(self, pods: Informer, worker: PodWorker) -> None:
        self._pods = pods
        self._worker = worker
        self._doubted: dict[str, dict[str, str]] = {}  # by node, revisions of pods in dispute at the last beat, by uid
        self.wake: Callable[[ObjectKey], None] = lambda _: None

    def look(self, node: Node) -> None:
        """A dispute that lasts from one beat to the next is settled: before, a cache may only be late."""
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
