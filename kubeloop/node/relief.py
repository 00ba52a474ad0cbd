"""Gives up pods of nodes that are short of something: one at a beat, until nothing is left to give or all is well."""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.pods import is_active
from kubeloop.node.eviction import EVICTED, verdict_of, victim_of
from kubeloop.node.roster import Roster
from kubeloop.node.runtime import Runtime
from kubeloop.node.telling import Telling
from kubeloop.node.worker import PodWorker
from kubeloop.runtime.cache import NODE
from kubeloop.runtime.informer import Informer
from kubeloop.runtime.keys import ObjectKey, key_of


class Relief:
    """Called for each node at its beat; `wake` lets a pod have its turn."""

    def __init__(self, pods: Informer, roster: Roster, runtime: Runtime, worker: PodWorker, telling: Telling) -> None:
        self._pods = pods
        self._roster = roster
        self._runtime = runtime
        self._worker = worker
        self._telling = telling
        self.wake: Callable[[ObjectKey], None] = lambda _: None

    def relieve(self, node: Node) -> None:
        pressures = self._roster.pressures_of(node)
        if not pressures:
            return
        running = [pod for pod in self._pods.by_index(NODE, node.metadata.name) if is_active(pod)]
        victim = victim_of(running, pressures[0], self._runtime.usage)
        if victim is None:
            return
        verdict = verdict_of(victim, pressures[0], self._runtime.usage)
        if self._worker.evict(victim, verdict):
            self._telling.refused(victim, EVICTED, verdict.message)
            self.wake(key_of(victim))
