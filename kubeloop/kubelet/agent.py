# SPDX-License-Identifier: Apache-2.0
"""Builds the node agent for any number of simulated nodes: informers, pod workers, heartbeat and their loops.

queues ──▶ states, runtime, managers (each adds to the queues) ──▶ pod workers, heartbeat ──▶ loops (take from them)
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kubeloop.api.generated.core_v1 import Node, Pod, Service
from kubeloop.api.generated.node_v1 import RuntimeClass
from kubeloop.api.meta.conditions import is_true
from kubeloop.api.pods.pod import is_terminal
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.kubelet.admission.admit_handler import PodAdmitHandler
from kubeloop.kubelet.admission.allocator import AllocationManager
from kubeloop.kubelet.agent_config import NodeAgentConfig, StandaloneConfig, nodes_to_register
from kubeloop.kubelet.agent_metrics import NodeAgentMetrics
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration, static_resources
from kubeloop.kubelet.config.static_pod_url import PodURL, StaticPodURLSource
from kubeloop.kubelet.config.static_pods import (
    ALL_STATIC_PODS,
    StaticPodController,
    StaticPodSources,
    index_mirror_pods,
)
from kubeloop.kubelet.containers.env_sources import ApiEnvSources
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.eviction.manager import EvictionManager
from kubeloop.kubelet.eviction.signals import SignalTracker
from kubeloop.kubelet.node_status.heartbeat import HeartbeatSchedule, NodeHeartbeat
from kubeloop.kubelet.node_status.lease_controller import MAX_LEASE_RENEW_SECONDS, LeaseController
from kubeloop.kubelet.node_status.registrar import NodeRegistrar
from kubeloop.kubelet.node_status.served_nodes import STOPPED, ServedNodes
from kubeloop.kubelet.node_status.shutdown import NodeShutdownManager, ShutdownStatus
from kubeloop.kubelet.node_status.status_reporter import NodeStatusReporter
from kubeloop.kubelet.runtime import Runtime
from kubeloop.kubelet.server.dialer import LocalNodeDialer
from kubeloop.kubelet.server.endpoints import EndpointHandler, KubeletEndpoints, pods_on
from kubeloop.kubelet.server.metrics_api import MetricsGroup
from kubeloop.kubelet.server.stats import StatsProvider
from kubeloop.kubelet.server.status_endpoints import StatusEndpoints
from kubeloop.kubelet.simulated import attacher
from kubeloop.kubelet.simulated.addresses import PodAddressAllocator, network_offset_by_name
from kubeloop.kubelet.simulated.runtime import SimulatedRuntime
from kubeloop.kubelet.status.status_manager import StatusManager
from kubeloop.kubelet.sync.pod_states import PodStates
from kubeloop.kubelet.sync.pod_syncer import PodSyncer, SyncOptions
from kubeloop.kubelet.sync.pod_workers import PodManagers, PodWorkers
from kubeloop.kubelet.sync.sync_queues import new_sync_queues
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

if TYPE_CHECKING:
    from kubeloop.kubelet.cri.node import CriNode
    from kubeloop.kubelet.nodeshutdown.manager import GracefulShutdownManager

COMPONENT = "kubelet"
PODS, HEARTBEATS, STATIC_PODS = "kubelet-pods", "kubelet-heartbeats", "kubelet-static-pods"
# Concurrent writes share a flush of the store; more workers gain nothing.
_POD_WORKERS, _NODE_WORKERS = 64, 32
# Heartbeats must not starve beside thousands of pods: nodes per heartbeat worker.
_NODES_PER_WORKER = 20


class NodeAgent:
    """Node agent of simulated nodes; the caller runs `loops` together with the informers."""

    def __init__(self, client: Client, informers: SharedInformerFactory, clock: Clock, config: NodeAgentConfig) -> None:
        alone = config.standalone or StandaloneConfig({})
        own = next(iter(alone.endpoints)) if alone.has_node_rights_only else ""
        self._client, self._clock = client, clock
        self.kubelet_metrics = NodeAgentMetrics()
        self._queues = new_sync_queues(clock, self.kubelet_metrics.registry)
        self._pods, self._nodes = _pods_and_nodes(informers, own)
        self._signals = SignalTracker(clock, config.cri.eviction) if config.cri is not None else None
        self._shutdown = ShutdownStatus()
        self.served_nodes = ServedNodes(
            self._nodes,
            clock,
            frozenset(alone.endpoints),
            signals=self._signals,
            is_shutting_down=lambda: self._shutdown.is_shutting_down,
        )
        made = nodes_to_register(config, SimulatedRuntime.name, clock)
        self.recorder = EventRecorder(client, COMPONENT, clock)
        self._events = PodEvents(self.recorder, config.event_level)
        self._cri_node = self._new_cri_node(config, informers)
        self.runtime: Runtime = (
            self._cri_node.runtime if self._cri_node is not None else self._new_simulated_runtime(config, made)
        )
        enqueue = self._queues.pods.add
        self.pod_states = PodStates(enqueue)
        self._status_manager = StatusManager(client, self._pods, self.pod_states, enqueue)
        static = static_resources(config.settings) if config.cri is not None else frozenset()
        self._allocator = AllocationManager(self._events, enqueue, static=static)
        watch = RestrictedVolumeWatch if own else VolumeWatch
        self._volumes = watch(self._pods, informers, self._queues, client)
        self._registrar = self._new_registrar(config, made)
        statistics = StatsProvider(partial(pods_on, self._pods), self.runtime, clock, self.kubelet_metrics)
        real_stats = self._cri_node.stats if self._cri_node is not None else None
        status = StatusEndpoints(self.served_nodes, statistics, config.pages, real_stats)
        further = {**status.handlers(), **self._checkpoint_handlers()}
        endpoints = KubeletEndpoints(self._pods, self.runtime, self._status_manager, clock, further)
        self.dialer = LocalNodeDialer(self.served_nodes, self.runtime, endpoints)
        self.metrics = MetricsGroup(self._pods, self.served_nodes, self.runtime, clock)
        self._pod_loop = self._new_pod_loop(config)
        self._node_loop = self._new_node_loop(config)
        self._volumes.register(self._pod_loop, self._node_loop)
        # A kubelet with node rights may not write attachments.
        self._attacher = None if own else attacher.wire(client, informers, self._nodes, self.served_nodes, clock)
        self._static_url = self._new_static_url(config.settings)
        has_static = config.static_pods is not None or self._static_url is not None
        self._static_loop = self._new_static_loop(config) if has_static else None

    @property
    def loops(self) -> tuple[Controller[ObjectKey], ...]:
        """Controllers to be run together; the one for static pods only if there is a manifest folder."""
        every = (self._node_loop, self._pod_loop, self._attacher, self._static_loop)
        return tuple(one for one in every if one is not None)

    def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod with the status last reported."""
        found: Pod | None = self._pods.get(namespace, name)
        return self._status_manager.with_reported_status(found) if found is not None else None

    def background_tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the work beside the loops: of a real node, and of the URL of static pods."""
        url = (self._static_url.run(),) if self._static_url is not None else ()
        if self._cri_node is None:
            return url
        shutdown = self._new_shutdown_manager(self._cri_node).run()
        return (*url, *self._cri_node.tasks(self._running_pods, self._is_known), shutdown)

    async def start(self) -> None:
        """Set a real node up before it runs pods. Raises `CgroupError`, or `ValueError` for impossible settings."""
        if self._cri_node is not None:
            await self._cri_node.start()

    async def close(self) -> None:
        """End operations under way on a real node; its containers run on."""
        if self._cri_node is not None:
            await self._cri_node.close()

    async def wait_registered(self) -> None:
        """Wait until all requested nodes are registered."""
        await self._registrar.wait_registered()

    # Construction.

    def _new_cri_node(self, config: NodeAgentConfig, informers: SharedInformerFactory) -> CriNode | None:
        if config.cri is None or self._signals is None:
            return None
        from kubeloop.kubelet.cri.node import AgentParts, CriNode  # simulated nodes do without it

        services, enqueue = informers.for_resource(resource_of_class(Service)), self._queues.pods.add
        parts = AgentParts(
            self._client,
            self._clock,
            self._events,
            self.served_nodes,
            services,
            enqueue,
            informers.for_resource(resource_of_class(RuntimeClass)),
            partial(pods_on, self._pods, config.cri.name),
            self._signals,
            lambda: self._pods.has_synced,
            self.kubelet_metrics.registry,
        )
        return CriNode(config.cri, parts)

    def _new_simulated_runtime(self, config: NodeAgentConfig, made: Mapping[str, Node]) -> SimulatedRuntime:
        offset = network_offset_by_name(next(iter(made))) if config.standalone is not None else 0
        addresses = PodAddressAllocator(self.served_nodes.pod_cidrs_of, offset, config.cluster_cidrs)
        return SimulatedRuntime(self._clock, self.served_nodes, addresses, config.rules, self._queues.pods.add)

    def _checkpoint_handlers(self) -> dict[str, EndpointHandler]:
        """Return the endpoint of checkpoints, which only a real node has."""
        node = self._cri_node
        if node is None or not node.can_checkpoint:
            return {}
        from kubeloop.kubelet.server.checkpoint import CheckpointEndpoint

        endpoint = CheckpointEndpoint(self.get_pod, node.runtime, node.config.paths.checkpoints(), self._clock)
        return {"checkpoint": endpoint.serve}

    def _new_shutdown_manager(self, node: CriNode) -> GracefulShutdownManager:
        from kubeloop.kubelet.nodeshutdown.manager import ShutdownHost, new_shutdown_manager

        states, name = self.pod_states, node.config.name
        host = ShutdownHost(
            self._clock,
            self._shutdown,
            lambda: [pod for pod in pods_on(self._pods, name) if not states.is_terminated(pod.metadata.uid)],
            states.evict,
            lambda pod: states.is_terminated(pod.metadata.uid) and node.runtime.is_unmounted(pod.metadata.uid),
            partial(self._events.record_node_event, name),
            lambda: self._queues.nodes.add(ObjectKey("", name)),
        )
        return new_shutdown_manager(node.config.settings, node.config.paths.root, host, self.kubelet_metrics.registry)

    def _new_registrar(self, config: NodeAgentConfig, made: Mapping[str, Node]) -> NodeRegistrar:
        alone = config.standalone
        wanted = made if alone is None or alone.register_nodes else {}
        for name in wanted:
            self._queues.nodes.add(ObjectKey("", name))
        corrections = made if alone is not None else {}
        return NodeRegistrar(self._client, self.served_nodes, wanted, corrections, untaint=config.untaint)

    def _new_pod_loop(self, config: NodeAgentConfig) -> Controller[ObjectKey]:
        checks = self._volumes.new_volume_manager(self._events, self._clock, self.kubelet_metrics.volumes)
        handler = PodAdmitHandler(
            *(self._pods, self.served_nodes, self._allocator, self.pod_states, self._events),
            admitter=self._cri_node,
        )
        managers = PodManagers(
            handler,
            self._allocator,
            checks
            if self._cri_node is None
            else self._cri_node.new_volume_manager(checks, self._volumes.claims.volume_of),
            self._status_manager,
        )
        env_sources = ApiEnvSources(self._client)
        probes = self._cri_node.probe_workers if self._cri_node is not None else None
        options = SyncOptions(config.settings.max_restart_seconds, probes)
        syncer = PodSyncer(self.runtime, self._events, self._clock, env_sources, self.kubelet_metrics, options)
        workers = PodWorkers(self._pods, self.served_nodes, self.pod_states, syncer, managers, self._clock)
        loop = Controller(PODS, workers.reconcile, self._clock, workers=_POD_WORKERS, queue=self._queues.pods)
        loop.watches(self._pods, own_key, _is_relevant_pod_update)
        self._pods.add_handler(ResourceEventHandlerFuncs(on_add=self._reserve_existing, on_delete=self._release))
        if self._cri_node is not None:
            self._pods.add_handler(ResourceEventHandlerFuncs(on_update=self._interrupt_start))
        return loop

    def _new_node_loop(self, config: NodeAgentConfig) -> Controller[ObjectKey]:
        pods, served, states = self._pods, self.served_nodes, self.pod_states
        eviction = EvictionManager(pods, served, self.runtime, states, self._events, self._queues.nodes.add_after)
        simulated = NodeShutdownManager(pods, served, states, self._clock) if self._cri_node is None else None
        shutdown = (simulated.sync_node,) if simulated is not None else ()
        handlers = (eviction.synchronize, *shutdown, self._status_manager.reconcile_node)
        alone = config.standalone
        interval = alone.max_heartbeat_seconds if alone is not None else MAX_LEASE_RENEW_SECONDS
        schedule = HeartbeatSchedule(self._queues.nodes, self._clock, interval)
        leases = LeaseController(self._client, served, config.settings.node_lease_duration_seconds)
        setter = self._cri_node.set_node_status if self._cri_node is not None else None
        report_seconds = config.settings.node_status_report_frequency
        reporter = NodeStatusReporter(
            self._client, served, self._volumes, self._trouble_of, setter, report_seconds=report_seconds
        )
        heartbeat = NodeHeartbeat(self._registrar, leases, reporter, schedule, handlers)
        count = max(_NODE_WORKERS, config.count // _NODES_PER_WORKER)
        loop = Controller(HEARTBEATS, heartbeat.reconcile, self._clock, workers=count, queue=self._queues.nodes)
        loop.watches(self._nodes, own_key, self._is_relevant_node_update)
        self._nodes.add_handler(ResourceEventHandlerFuncs(on_add=self._on_node_added, on_update=self._on_node_changed))
        return loop

    def _new_static_url(self, settings: KubeletConfiguration) -> StaticPodURLSource | None:
        if not settings.static_pod_url:
            return None
        url = PodURL(settings.static_pod_url, settings.static_pod_url_header, settings.http_check_frequency)
        return StaticPodURLSource(url, self._on_static_url_change)

    def _on_static_url_change(self) -> None:
        if self._static_loop is not None:
            self._static_loop.queue.add(ALL_STATIC_PODS)

    def _new_static_loop(self, config: NodeAgentConfig) -> Controller[ObjectKey]:
        sources = StaticPodSources(config.static_pods, config.settings.file_check_frequency, self._static_url)
        static = StaticPodController(self._client, self._pods, self.served_nodes, sources, self._clock)
        loop: Controller[ObjectKey] = Controller(STATIC_PODS, static.reconcile, self._clock, workers=1)
        loop.watches(
            self._pods, lambda _: (ALL_STATIC_PODS,), lambda old, new: new is None and bool(index_mirror_pods(old))
        )
        loop.watches(self._nodes, lambda _: (ALL_STATIC_PODS,), self._is_relevant_node_update)
        return loop

    def _running_pods(self) -> list[Pod]:
        return [pod for pod in self._pods.list() if not is_terminal(pod) and pod.metadata.deletion_timestamp is None]

    def _trouble_of(self, node: Node) -> str:
        """Return why a node is not ready; empty if it is."""
        if self.served_nodes.is_shutting_down(node):
            return "node is shutting down"
        return self._cri_node.health_error() if self._cri_node is not None else ""

    def _is_known(self, uid: str) -> bool:
        """Return True for a pod of the API server, and as long as the pods have not been listed."""
        known = self.pod_states.get(uid) is not None or not self._pods.has_synced
        return known or any(pod.metadata.uid == uid for pod in self._pods.list())

    # Changes of pods and nodes.

    def _reserve_existing(self, pod: Pod) -> None:
        """Reserve the addresses and resources of a pod that ran before this agent started."""
        if pod.status.pod_ips and not is_terminal(pod):
            self.runtime.adopt_pod(pod)
            if pod.metadata.deletion_timestamp is None:
                self._allocator.add_pod(pod)

    def _interrupt_start(self, old: Pod, new: Pod) -> None:
        """Interrupt the start of a container, which may wait for an image, if its pod is deleted."""
        is_deleted = new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None
        if is_deleted and self._cri_node is not None:
            self._cri_node.runtime.interrupt(new.metadata.uid)

    def _release(self, pod: Pod) -> None:
        self._allocator.remove_pod(pod.spec.node_name, pod.metadata.uid)

    def _on_node_added(self, node: Node) -> None:
        """Sync the pods that were bound to a node before it existed."""
        if self.served_nodes.serves(node):
            for pod in self._pods.by_index(NODE, node.metadata.name):
                self._queues.pods.add(key_of(pod))

    def _on_node_changed(self, old: Node, new: Node) -> None:
        """Sync the pods of a node that was stopped, started, partitioned or reconnected."""
        before, after = self.served_nodes.state_of(old), self.served_nodes.state_of(new)
        if not self.served_nodes.serves(new):
            return
        if is_true(new.status.conditions, "Ready") and not is_true(old.status.conditions, "Ready"):
            self._rewrite_pod_statuses(new)
        self._volumes.handle_node_update(old, new)
        if before == after:
            return
        pods = self._pods.by_index(NODE, new.metadata.name)
        if after == STOPPED:
            for pod in pods:
                self.runtime.halt(pod.metadata.uid)
        if not after:
            for pod in pods:
                self._queues.pods.add(key_of(pod))

    def _rewrite_pod_statuses(self, node: Node) -> None:
        """Write the pod statuses again, as other clients may have set pods to not ready meanwhile."""
        for pod in self._pods.by_index(NODE, node.metadata.name):
            self._status_manager.mark_stale(pod)

    def _is_relevant_node_update(self, old: Any, new: Any) -> bool:
        """Return True if a node must be reconciled before its lease is due."""
        if new is None or not self.served_nodes.serves(new):
            return False
        return old is None or bool(old.metadata.annotations != new.metadata.annotations)


def _pods_and_nodes(informers: SharedInformerFactory, own: str) -> tuple[Informer, Informer]:
    """Return the informers of pods and nodes; of one node and its pods only if it is named."""
    pods = informers.for_resource(resource_of_class(Pod), fields=f"spec.nodeName={own}" if own else "")
    pods.add_indexer(NODE, node_name_of)
    return pods, informers.for_resource(resource_of_class(Node), fields=f"metadata.name={own}" if own else "")


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
