"""Builds the node agent for any number of simulated nodes: informers, pod worker, heartbeat and their loops."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.meta.conditions import is_true
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.pods.volumes import CONTROLLER_MANAGED_ATTACH_ANNOTATION
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.kubelet.config.static_pods import ALL_STATIC_PODS, StaticPodController, index_mirror_pods
from kubeloop.kubelet.events.recorder import EventLevel, PodEvents
from kubeloop.kubelet.eviction.manager import EvictionManager
from kubeloop.kubelet.node_status.heartbeat import LEASE_RENEW_SECONDS, NodeHeartbeat
from kubeloop.kubelet.node_status.registration import KUBELET_PORT, KubeletEndpoint, NodeShape, new_node
from kubeloop.kubelet.node_status.served_nodes import BY_KUBELET, SERVED_NODE_ANNOTATION, STOPPED, ServedNodes
from kubeloop.kubelet.node_status.shutdown import NodeShutdownManager
from kubeloop.kubelet.server.dialer import LocalNodeDialer
from kubeloop.kubelet.server.endpoints import KubeletEndpoints
from kubeloop.kubelet.server.metrics_api import MetricsGroup
from kubeloop.kubelet.simulated import attacher
from kubeloop.kubelet.simulated.addresses import node_address
from kubeloop.kubelet.simulated.runtime import SimulatedRuntime
from kubeloop.kubelet.simulated.stages import StageRule
from kubeloop.kubelet.status.reconciler import StatusReconciler
from kubeloop.kubelet.sync.pod_worker import PodWorker
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES
from kubeloop.kubelet.volumes.restricted_watch import RestrictedVolumeWatch
from kubeloop.kubelet.volumes.watch import VolumeWatch
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.informer.store import NODE, node_name_of
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key

COMPONENT = "kubelet"
PODS, HEARTBEATS, STATIC_PODS = "kubelet-pods", "kubelet-heartbeats", "kubelet-static-pods"
# Concurrent writes share a flush of the store; more workers gain nothing.
_POD_WORKERS, _NODE_WORKERS = 64, 32
# Heartbeats must not starve beside thousands of pods: nodes per heartbeat worker.
_NODES_PER_WORKER = 20


@dataclass(frozen=True, slots=True)
class StandaloneConfig:
    """Settings of an agent that is a separate program and serves nodes by their names only."""

    endpoints: Mapping[str, KubeletEndpoint]  # addresses of the nodes, by name
    as_node: bool = False  # restricted to the rights of its single node
    registers: bool = True  # create the Node objects; else wait until they exist
    beat: float = (
        LEASE_RENEW_SECONDS  # maximum interval between heartbeats in seconds, if shorter than the lease requires
    )


@dataclass(frozen=True, slots=True)
class NodeAgentConfig:
    """Settings of the agent."""

    count: int = 0  # nodes to register: n1, n2, …
    shape: NodeShape = field(default_factory=NodeShape)
    events: EventLevel = "warnings"
    rules: tuple[StageRule, ...] = ()  # rules of a stage file
    static_pods: Path | None = None  # a folder of manifests
    untaint: bool = False  # remove the initial taint; for clusters without the controller that does
    host: str = ""  # listen address of nodes with their own ports
    first_port: int = 0  # port of the first node, increasing by one per node; 0 for none
    alone: StandaloneConfig | None = None  # for a separate program


class NodeAgent:
    """Node agent of simulated nodes; the caller runs `loops` together with the informers."""

    def __init__(self, client: Client, informers: SharedInformerFactory, clock: Clock, config: NodeAgentConfig) -> None:
        alone = config.alone or StandaloneConfig({})
        own = next(iter(alone.endpoints)) if alone.as_node else ""
        self._pods = informers.of(resource_of_class(Pod), fields=f"spec.nodeName={own}" if own else "")
        self._pods.add_indexer(NODE, node_name_of)
        nodes = informers.of(resource_of_class(Node), fields=f"metadata.name={own}" if own else "")
        self.roster = ServedNodes(nodes, clock, frozenset(alone.endpoints))
        self.runtime = SimulatedRuntime(clock, self.roster.networks_of, config.rules)
        self.runtime.allocatable_of = self.roster.allocatable_of
        self.recorder = EventRecorder(client, COMPONENT, clock)
        telling = PodEvents(self.recorder, config.events)
        self.worker = PodWorker(client, self._pods, self.roster, self.runtime, telling, clock)
        self.pages = KubeletEndpoints(self._pods, self.roster, self.runtime, clock)
        self.access = LocalNodeDialer(self.roster, self.runtime, self.pages)
        self.metrics = MetricsGroup(self._pods, self.roster, self.runtime, clock)
        self.pages.shown = self.worker.as_reported
        made = nodes_to_register(config, self.runtime.name, clock)
        wanted = made if alone.registers else {}
        self._heartbeat = NodeHeartbeat(client, self.roster, clock, wanted, untaint=config.untaint)
        if config.alone is not None:
            self._heartbeat.facts, self._heartbeat.longest_pause = dict(made), alone.beat
            self.runtime.addresses.apart(next(iter(made)))
        self._pod_loop: Controller[ObjectKey] = Controller(PODS, self.worker.reconcile, clock, workers=_POD_WORKERS)
        self._node_loop: Controller[ObjectKey] = Controller(
            HEARTBEATS,
            self._heartbeat.reconcile,
            clock,
            workers=max(_NODE_WORKERS, config.count // _NODES_PER_WORKER),
        )
        self._pod_loop.watches(self._pods, own_key, _is_relevant_pod_update)
        self._node_loop.watches(nodes, own_key, self._is_news_of_node)
        nodes.add_handler(ResourceEventHandlerFuncs(on_update=self._on_node_changed))
        self._pods.add_handler(ResourceEventHandlerFuncs(on_add=self._count_in, on_delete=self._count_out))
        self._registered = asyncio.Event()
        self._missing = set(wanted)
        self._heartbeat.on_registered = self._note_registered
        relief = EvictionManager(self._pods, self.roster, self.runtime, self.worker, telling)
        shutdown = NodeShutdownManager(self._pods, self.roster, self.worker, clock)
        wake = self._pod_loop.queue.add
        self.worker.pods_on = lambda name: self._pods.by_index(NODE, name)
        disputes = StatusReconciler(self._pods, self.worker)
        relief.wake = shutdown.wake = disputes.wake = self.runtime.wake = self.worker.allocator.wake = wake
        relief.look_again = self._node_loop.queue.add_after
        self._heartbeat.on_beat = (relief.relieve, shutdown.look_after, disputes.look)
        for name in wanted:
            self._node_loop.queue.add(ObjectKey("", name))
        if not wanted:
            self._registered.set()

        # A kubelet with node rights may not write attachments.
        self._attacher = None if own else attacher.wire(client, informers, nodes, self.roster, clock)
        self._volume_news = (
            RestrictedVolumeWatch(self._pods, informers, client) if own else VolumeWatch(self._pods, informers)
        )
        self._volume_news.follow(self._pod_loop, self._node_loop)
        self.worker.mounting = self._volume_news.mounting(client, telling, clock)
        self._heartbeat.volumes_in_use = self._volume_news.in_use
        self._heartbeat.reported_volumes = self._volume_news.attachments.reported
        self._heartbeat.reported_volumes.on_confirmed = self._wake_users_of_volumes
        self._static_loop = self._static_pods(client, nodes, config.static_pods, clock)

    @property
    def loops(self) -> tuple[Controller[ObjectKey], ...]:
        """Controllers to be run together; the one for static pods only if there is a manifest folder."""
        every = (self._node_loop, self._pod_loop, self._attacher, self._static_loop)
        return tuple(one for one in every if one is not None)

    def _static_pods(
        self, client: Client, nodes: Informer, folder: Path | None, clock: Clock
    ) -> Controller[ObjectKey] | None:
        if folder is None:
            return None
        static = StaticPodController(client, self._pods, self.roster, folder, clock)
        loop: Controller[ObjectKey] = Controller(STATIC_PODS, static.reconcile, clock, workers=1)
        loop.watches(
            self._pods, lambda _: (ALL_STATIC_PODS,), lambda old, new: new is None and bool(index_mirror_pods(old))
        )
        loop.watches(nodes, lambda _: (ALL_STATIC_PODS,), self._is_news_of_node)
        return loop

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod with the status last reported."""
        found: Pod | None = self._pods.get(namespace, name)
        return self.worker.as_reported(found) if found is not None else None

    async def registered(self) -> None:
        """Wait until all requested nodes are registered."""
        await self._registered.wait()

    def _note_registered(self, name: str) -> None:
        self._missing.discard(name)
        if not self._missing:
            self._registered.set()

    def _count_in(self, pod: Pod) -> None:
        """Reserve the addresses and resources of a pod that ran before this agent started."""
        if pod.status.pod_ips and not is_terminal(pod):
            self.runtime.addresses.claim(one.ip for one in pod.status.pod_ips)
            if pod.metadata.deletion_timestamp is None:
                self.worker.allocator.take(pod)

    def _count_out(self, pod: Pod) -> None:
        self.worker.allocator.release(pod.spec.node_name, pod.metadata.uid)

    def _on_node_changed(self, old: Node, new: Node) -> None:
        """Sync the pods of a node that was stopped, started, partitioned or reconnected."""
        before, after = self.roster.state_of(old), self.roster.state_of(new)
        if not self.roster.serves(new):
            return
        if is_true(new.status.conditions, "Ready") and not is_true(old.status.conditions, "Ready"):
            self._report_readiness_anew(new)
        for key in self._volume_news.waiting_on(old, new):
            self._pod_loop.queue.add(key)
        if before == after:
            return
        pods = self._pods.by_index(NODE, new.metadata.name)
        if after == STOPPED:
            for pod in pods:
                self.runtime.halt(pod.metadata.uid)
        if not after:
            for pod in pods:
                self._pod_loop.queue.add(key_of(pod))

    def _report_readiness_anew(self, node: Node) -> None:
        """Write the pod statuses again, as other clients may have set pods to not ready meanwhile."""
        for pod in self._pods.by_index(NODE, node.metadata.name):
            self.worker.contradict(pod)
            self._pod_loop.queue.add(key_of(pod))

    def _wake_users_of_volumes(self, node: str) -> None:
        """Sync pods with volumes once the server has confirmed the node status that lists them."""
        for key in self._volume_news.users_on(node):
            self._pod_loop.queue.add(key)

    def _is_news_of_node(self, old: Any, new: Any) -> bool:
        """Return True if a node must be reconciled before its lease is due."""
        if new is None or not self.roster.serves(new):
            return False
        return old is None or bool(old.metadata.annotations != new.metadata.annotations)


def nodes_to_register(config: NodeAgentConfig, runtime: str, clock: Clock) -> dict[str, Node]:
    """Return the nodes to register, by name."""
    by = BY_KUBELET if config.alone is not None else ""
    annotations = {SERVED_NODE_ANNOTATION: by, CONTROLLER_MANAGED_ATTACH_ANNOTATION: "true", **config.shape.annotations}
    shape = msgspec.structs.replace(config.shape, annotations=annotations, runtime=runtime)
    endpoints = config.alone.endpoints if config.alone is not None else _endpoints_of(config)
    now = clock.now()
    return {name: new_node(name, endpoint, shape, now) for name, endpoint in endpoints.items()}


def _endpoints_of(config: NodeAgentConfig) -> dict[str, KubeletEndpoint]:
    ports = kubelet_ports(config)
    return {
        name: KubeletEndpoint(config.host or node_address(number), ports[name]) for number, name in enumerate(ports, 1)
    }


def kubelet_ports(config: NodeAgentConfig) -> dict[str, int]:
    """Return the kubelet port of each node to register, by name."""
    first = config.first_port
    return {f"n{one}": first + one - 1 if first else KUBELET_PORT for one in range(1, config.count + 1)}


def _is_relevant_pod_update(old: Any, new: Any) -> bool:
    """Return True if a pod update may require a sync; the agent's own status writes do not."""
    if not (old if new is None else new).spec.node_name:
        return False
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return bool(
        old.spec.node_name != new.spec.node_name
        or before.generation != after.generation
        or before.deletion_timestamp != after.deletion_timestamp
        or before.deletion_grace_period_seconds != after.deletion_grace_period_seconds
        or before.annotations != after.annotations
        or (old.status.phase != new.status.phase and new.status.phase in TERMINAL_PHASES)
        or (new.spec.readiness_gates and old.status.conditions != new.status.conditions)
    )
