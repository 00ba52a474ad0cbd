# SPDX-License-Identifier: Apache-2.0
"""Builds the parts of a real node: CRI services, runtime, volumes, and the tasks that run beside the pod workers."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Callable, Collection, Coroutine, Iterable, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Node, NodeStatus, Pod
from kubeloop.api.pods.pod import is_active, is_terminal
from kubeloop.api.quota.amounts import amounts_of
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.admission.predicates import rejection_of
from kubeloop.kubelet.admission.sysctls import FORBIDDEN, kernel_version, new_allowlist
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError, read_hierarchy
from kubeloop.kubelet.cm.cgroups.manager import CgroupManager
from kubeloop.kubelet.cm.container_manager import ContainerManager, ContainerManagerConfig, read_process_limit
from kubeloop.kubelet.cm.cpus.manager import CpuManager, CpuManagerParts
from kubeloop.kubelet.cm.devices.device_metrics import DevicePluginMetrics
from kubeloop.kubelet.cm.devices.manager import DeviceManager, DeviceManagerParts
from kubeloop.kubelet.cm.dra.manager import DRAManager
from kubeloop.kubelet.cm.dra.setup import DRANode, new_dra_manager
from kubeloop.kubelet.cm.manager_config import cpu_manager_config, memory_manager_config, new_topology_policy
from kubeloop.kubelet.cm.manager_metrics import ResourceManagerMetrics
from kubeloop.kubelet.cm.memory.manager import MemoryManager
from kubeloop.kubelet.cm.node_allocatable import reservation
from kubeloop.kubelet.cm.resource_managers import ResourceManagers
from kubeloop.kubelet.cm.topology.hints import ResourceAllocationError
from kubeloop.kubelet.cm.topology.machine import read_numa_nodes
from kubeloop.kubelet.cm.topology.manager import AffinityStore, TopologyManager
from kubeloop.kubelet.config.decode import features_of
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.containers.probe_workers import ProbeWorkers
from kubeloop.kubelet.credentialprovider.docker_config import NodeDockerConfig
from kubeloop.kubelet.credentialprovider.plugin_tokens import PluginTokens
from kubeloop.kubelet.credentialprovider.provider_config import CredentialPlugins
from kubeloop.kubelet.credentialprovider.pull_keyring import PullKeyring, new_plugin_providers
from kubeloop.kubelet.cri.config.dns import DnsSettings, pod_dns
from kubeloop.kubelet.cri.config.linux_resources import MachineMemory
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.config.resource_policy import ResourcePolicy
from kubeloop.kubelet.cri.container_mounts import ContainerMounts
from kubeloop.kubelet.cri.eviction_monitor import EvictionMonitor
from kubeloop.kubelet.cri.gc.container_gc import ContainerGC
from kubeloop.kubelet.cri.gc.image_gc import ImageGCManager, ImageGCPolicy
from kubeloop.kubelet.cri.gc.log_links import ContainerLogLinks
from kubeloop.kubelet.cri.gc.log_manager import ContainerLogManager, LogRotationPolicy
from kubeloop.kubelet.cri.image_manager import ImageManager, PullParts
from kubeloop.kubelet.cri.isolation.host_security import read_host_security
from kubeloop.kubelet.cri.isolation.pod_isolation import IsolationManager
from kubeloop.kubelet.cri.isolation.runtime_state import RuntimeState
from kubeloop.kubelet.cri.isolation.user_namespaces import UserNamespaceManager, read_kubelet_range
from kubeloop.kubelet.cri.lifecycle.actuated_state import ActuatedState
from kubeloop.kubelet.cri.messages.image import Image
from kubeloop.kubelet.cri.messages.runtime import StatusResponse
from kubeloop.kubelet.cri.pleg import GenericPLEG
from kubeloop.kubelet.cri.running_containers import RunningContainerService
from kubeloop.kubelet.cri.runtime import CriParts, CriRuntime, NodeFacts
from kubeloop.kubelet.cri.services import ImageService, RuntimeService
from kubeloop.kubelet.cri.stats.collector import StatsCollector, StatsNode, StatsSources
from kubeloop.kubelet.cri.stats.provider import CriStatsProvider
from kubeloop.kubelet.cri.streams import StreamingClient
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.eviction.signals import EvictionPolicy, SignalTracker, eviction_policy_of
from kubeloop.kubelet.images.pull_manager import ImagePullManager
from kubeloop.kubelet.images.pull_policies import new_verification_policy
from kubeloop.kubelet.images.pull_records import PullRecords
from kubeloop.kubelet.node_status.machine import MachineResources, capacity_of, huge_page_sizes
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.pluginmanager.plugin_manager import PluginManager
from kubeloop.kubelet.pluginmanager.registration import DRA_PLUGIN
from kubeloop.kubelet.podresources.providers import PodResourcesProviders
from kubeloop.kubelet.podresources.server import PodResourcesMetrics, PodResourcesServer, RequestLimiter
from kubeloop.kubelet.sync.pod_state import TerminationReason
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.kubelet.volumes.host.manager import HostVolumeManager
from kubeloop.kubelet.volumes.host.mounter import FindVolume, VolumeMounter
from kubeloop.kubelet.volumes.host.payloads import PayloadReader
from kubeloop.kubelet.volumes.host.pod_certificates import PodCertificateManager
from kubeloop.kubelet.volumes.volume_manager import VolumeManager
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import key_of

_HOUSEKEEPING_SECONDS = 2.0
_CHECKPOINT_GATE = "ContainerCheckpoint"
_CONNECT_SECONDS = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeConnection:
    """Connection to a container runtime whose version is known."""

    channel: UnixChannel
    runtime: RuntimeService
    images: ImageService
    version: str  # as in `nodeInfo.containerRuntimeVersion`
    status: StatusResponse = field(default_factory=StatusResponse)


@dataclass(frozen=True, slots=True)
class CriNodeConfig:
    """Settings of a real node."""

    connection: RuntimeConnection
    name: str
    addresses: tuple[str, ...]
    machine: MachineResources
    paths: NodePaths = field(default_factory=NodePaths)
    dns: DnsSettings = field(default_factory=DnsSettings)
    resources: ContainerManagerConfig = field(default_factory=ContainerManagerConfig)
    parallel_pulls: int = 1
    log_rotation: LogRotationPolicy = field(default_factory=LogRotationPolicy)
    image_gc: ImageGCPolicy = field(default_factory=ImageGCPolicy)
    eviction: EvictionPolicy = field(default_factory=lambda: eviction_policy_of(KubeletConfiguration()))
    settings: KubeletConfiguration = field(default_factory=KubeletConfiguration)
    limits: ResourcePolicy = field(default_factory=ResourcePolicy)
    plugins: CredentialPlugins = field(default_factory=CredentialPlugins)


@dataclass(frozen=True, slots=True)
class AgentParts:
    """Parts of the agent that the node uses."""

    client: Client
    clock: Clock
    events: PodEvents
    nodes: ServedNodes
    services: Informer
    enqueue: EnqueuePod
    runtime_classes: Informer
    pods: Callable[[], list[Pod]]  # all of the node
    signals: SignalTracker
    has_pods: Callable[[], bool]  # False until the pods were listed
    metrics: MetricRegistry


async def connect_runtime(
    endpoint: str, seconds: float, new_images: Callable[[UnixChannel], ImageService] | None = None
) -> RuntimeConnection:
    """Connect to the runtime at an endpoint and read its version and status. Raises `RpcError`.

    `new_images` returns an image service other than the one at the same socket.
    """
    channel = UnixChannel(endpoint)
    runtime = RuntimeService(channel, seconds)
    images = ImageService(channel, seconds) if new_images is None else new_images(channel)
    first = RuntimeService(channel, _CONNECT_SECONDS)
    version, status = await first.version(), await first.status()
    name = f"{version.runtime_name}://{version.runtime_version}"
    return RuntimeConnection(channel, runtime, images, name, status)


class CriNode:
    """Parts of one real node; `tasks` run until the agent ends."""

    def __init__(self, config: CriNodeConfig, agent: AgentParts) -> None:
        service, clock, paths = config.connection.runtime, agent.clock, config.paths
        self.config = config
        self._agent = agent
        certificates = PodCertificateManager(agent.client, clock, agent.events.record_certificate_problem)
        self._mounter = VolumeMounter(paths, PayloadReader(agent.client, clock, certificates), clock)
        self._security = read_host_security()
        self._sysctls = new_allowlist(config.settings.allowed_unsafe_sysctls, kernel_version(platform.release()))
        facts = self._node_facts()
        images, self._pulls = config.connection.images, _pull_manager(config, clock)
        self._actuated = ActuatedState(CheckpointStore(paths.root))
        self._containers = self._new_container_manager()
        self._dra = self._new_dra_manager()
        self._managers = self._new_resource_managers()
        handlers = {DRA_PLUGIN: self._dra.plugins}
        self._plugins = PluginManager(paths.plugins_registry(), handlers, clock, agent.metrics)
        stats_node = StatsNode(config.name, paths, self._containers.pods.path, config.machine.memory, agent.pods)
        self._stats = StatsCollector(stats_node, StatsSources(service, images), clock)
        self.stats = CriStatsProvider(self._stats, config.machine)
        self.state = RuntimeState(service)
        self.state.handle(config.connection.status)
        isolation = IsolationManager(agent.runtime_classes, self.state, _user_namespaces(config, clock))
        parts = CriParts(
            agent.events,
            ImageManager(
                images,
                PullParts(_pull_keyring(config, agent.client, clock), self._pulls),
                agent.events,
                config.parallel_pulls,
            ),
            ContainerMounts(
                paths, self._mounter, config.dns.cluster_domain, clock, relabels=self._security.has_selinux
            ),
            StreamingClient(service),
            isolation,
            self._containers,
            self._managers,
            self._actuated,
            self._stats,
            lambda uid: self._pleg.is_absent(uid),
        )
        self.runtime = CriRuntime(service, config.connection.version, facts, parts, agent.enqueue)
        self.probe_workers = ProbeWorkers(self.runtime, agent.enqueue)
        self._pleg = GenericPLEG(service, clock, self.runtime.on_listed_change)
        self._volumes: HostVolumeManager | None = None
        self._logs = ContainerLogManager(service, clock, config.log_rotation)
        warn = partial(agent.events.record_node_warning, config.name)
        self.images = ImageGCManager(images, service, clock, config.image_gc, warn, self._on_images_collected)
        links = ContainerLogLinks(paths.container_logs())
        self._container_gc = ContainerGC(service, paths.pod_logs, links, self.runtime.forget_containers)
        self._monitor = EvictionMonitor(self._stats, agent.signals, self._container_gc, self.images, agent.pods)

    @property
    def can_checkpoint(self) -> bool:
        """True unless the feature gate ContainerCheckpoint is off."""
        return features_of(self.config.settings.feature_gates).is_enabled(_CHECKPOINT_GATE)

    def _node_facts(self) -> NodeFacts:
        """Return what the configuration of containers depends on besides their pod."""
        config, agent = self.config, self._agent
        return NodeFacts(
            config.paths,
            config.addresses,
            MachineMemory(config.machine.memory, huge_page_sizes(config.machine), config.limits),
            config.dns.cluster_domain,
            lambda pod: pod_dns(pod, config.dns),
            lambda: agent.nodes.allocatable_of(config.name),
            lambda: agent.services.list() if agent.services.has_synced else None,
            self._security,
            config.settings.seccomp_default,
            config.settings.default_pod_sysctls,
        )

    def _new_container_manager(self) -> ContainerManager:
        config, agent = self.config, self._agent
        cgroups = CgroupManager(read_hierarchy(), config.resources.cgroup_driver, huge_page_sizes(config.machine))
        capacity = {**amounts_of(capacity_of(config.machine, 0)), **read_process_limit()}
        record = partial(agent.events.record_node_event, config.name)
        return ContainerManager(cgroups, config.resources, capacity, lambda: filter(is_active, agent.pods()), record)

    def _new_resource_managers(self) -> ResourceManagers:
        """Return the managers, in the order in which they are asked for hints and allocations."""
        config, settings, agent = self.config, self.config.settings, self._agent
        affinities, nodes = AffinityStore(), read_numa_nodes()
        metrics = ResourceManagerMetrics(agent.metrics, agent.clock.monotonic)
        store, running = CheckpointStore(config.paths.root), RunningContainerService(config.connection.runtime)
        reserved = reservation(config.resources.node_allocatable, amounts_of(capacity_of(config.machine, 0)))
        cpu_parts = CpuManagerParts(store, affinities, running, self._active_pods, metrics)
        cpus = CpuManager(cpu_manager_config(settings, reserved), nodes, cpu_parts)
        memory = MemoryManager(memory_manager_config(settings, reserved), nodes, store, affinities, metrics)
        self._devices = self._new_device_manager(affinities, tuple(one.id for one in nodes), running)
        self._pod_resources = self._new_pod_resources(cpus, memory)
        managers = (self._devices, cpus, memory)
        policy, scope = new_topology_policy(settings, nodes), settings.topology_manager_scope
        topology = TopologyManager(affinities, managers, policy, scope, metrics=metrics)
        return ResourceManagers(topology, (*managers, self._dra), self._active_pods)

    def _new_dra_manager(self) -> DRAManager:
        config, agent = self.config, self._agent
        features = features_of(config.settings.feature_gates)
        node = DRANode(
            config.name,
            config.paths.root,
            agent.client,
            agent.clock,
            agent.metrics,
            agent.enqueue,
            lambda: agent.nodes.get(config.name) is not None,
            lambda: self._active_pods() if agent.has_pods() else None,
        )
        return new_dra_manager(node, features)

    def _new_device_manager(
        self, affinities: AffinityStore, numa_nodes: tuple[int, ...], running: RunningContainerService
    ) -> DeviceManager:
        agent, metrics = self._agent, DevicePluginMetrics(self._agent.metrics)
        parts = DeviceManagerParts(agent.clock, affinities, numa_nodes, running, self._enqueue_pods, metrics)
        return DeviceManager(self.config.paths.device_plugins(), parts)

    def _new_pod_resources(self, cpus: CpuManager, memory: MemoryManager) -> PodResourcesServer:
        agent = self._agent
        providers = PodResourcesProviders(agent.pods, self._active_pods, self._devices, cpus, memory)
        limiter, metrics = RequestLimiter(agent.clock), PodResourcesMetrics(agent.metrics)
        return PodResourcesServer(self.config.paths.pod_resources(), providers, limiter, metrics)

    def _enqueue_pods(self, uids: Set[str]) -> None:
        for pod in self._agent.pods():
            if pod.metadata.uid in uids:
                self._agent.enqueue(key_of(pod))

    def _active_pods(self) -> list[Pod]:
        return [pod for pod in self._agent.pods() if not is_terminal(pod)]

    async def start(self) -> None:
        """Restore the state and create the control groups of the node.

        Raises `CgroupError`, `CorruptCheckpoint`, `PullRecordError`, or `ValueError` for impossible settings.
        """
        self._actuated.restore()
        await self._managers.start()
        await self._pod_resources.start()
        if self.can_checkpoint:
            self.config.paths.checkpoints().mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._containers.start()
        if self._pulls is not None:
            self._pulls.open()
            if self._pulls.has_intents():
                self._pulls.resolve_intents(await self._list_images())

    async def _list_images(self) -> tuple[Image, ...]:
        try:
            return await self.config.connection.images.list_images()
        except RpcError as error:
            log.error("failed to list images: %s", error.format())
            return ()

    def _on_images_collected(self, images: Collection[str], began_at: datetime) -> None:
        if self._pulls is not None:
            self._pulls.prune(images, began_at)

    async def allocate(self, pod: Pod) -> TerminationReason | None:
        """Allocate CPUs, memory and devices of the machine to a pod; return why it is rejected, or None."""
        if problem := self._sysctls.rejection(pod):
            return TerminationReason(FORBIDDEN, problem, rejected=True)
        try:
            await self._managers.admit(pod)
        except ResourceAllocationError as error:
            return rejection_of(pod, error.reason, str(error))
        return None

    def node_for_admission(self, pod: Pod, node: Node) -> Node:
        """Return a node with the resources that the predicates apply to a pod."""
        return self._managers.node_for_admission(pod, node)

    def release(self, uid: str) -> None:
        """Release what was allocated to a pod that is rejected after all."""
        self._managers.remove_pod(uid)

    async def admit(self, pod: Pod, node: Node) -> TerminationReason | None:
        """Return why a pod is rejected by this machine; None if it is admitted."""
        return self._security.rejection(pod, node) if pod.status.phase in ("", "Pending") else None

    def health_error(self) -> str:
        """Return why the node is not ready; empty if the runtime answers."""
        if self._pleg.failure:
            return f"[container runtime is down, {self._pleg.failure}]"
        return self._pleg.health_error() or self.state.error

    def new_volume_manager(self, checks: VolumeManager, volume_of: FindVolume) -> HostVolumeManager:
        """Return the volume manager of the node; `volume_of` finds the volumes of claims."""
        self._volumes = HostVolumeManager(checks, self._mounter, volume_of, self._agent.events, self._agent.clock)
        return self._volumes

    def tasks(
        self, pods: Callable[[], Iterable[Pod]], is_known: Callable[[str], bool]
    ) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the work beside the pod workers, for the pods of the node; a pod that is not known is an orphan."""
        allocatable = self._agent.nodes.allocatable_of
        refresh = (
            self._volumes.refresh(pods, lambda: allocatable(self.config.name)) if self._volumes is not None else None
        )
        garbage = (self._clean_up(is_known), self._container_gc.run(is_known), self._logs.run())
        images = (self.images.run_list(), self.images.run_gc())
        watch = (self._pleg.run(), self.state.run(), self._monitor.run(), self._resync(pods))
        managers = (*self._containers.tasks(), *self._managers.tasks(), self._plugins.run(), self._pod_resources.run())
        return (*watch, *managers, *garbage, *images, *((refresh,) if refresh is not None else ()))

    def set_node_status(self, status: NodeStatus) -> NodeStatus:
        """Return a node's status with the facts about runtime and images that may change."""
        images = self.images.node_images()
        status = status if images is None else msgspec.structs.replace(status, images=images)
        return self._managers.set_node_status(self.state.set_node_status(status))

    async def close(self) -> None:
        """End operations under way and close the connection; containers run on."""
        await self.probe_workers.close()
        await self.runtime.close()
        await self.config.connection.channel.close()

    async def _resync(self, pods: Callable[[], Iterable[Pod]]) -> None:
        """Queue all running pods in the interval of `syncFrequency`, forever."""
        while True:
            await asyncio.sleep(self.config.settings.sync_frequency)
            for pod in pods():
                self._agent.enqueue(key_of(pod))

    async def _clean_up(self, is_known: Callable[[str], bool]) -> None:
        """Remove pods that the runtime has and the API server has not, forever."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            for uid in self._orphans(is_known):
                try:
                    await self.runtime.remove_pod(uid)
                except RpcError as error:
                    log.warning("pod %s could not be removed: %s", uid, error.format())
                except CgroupError as error:
                    log.warning("control group of pod %s: %s", uid, error)

    def _orphans(self, is_known: Callable[[str], bool]) -> list[str]:
        folder: Path = self.config.paths.root / "pods"
        on_disk = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        in_groups = self._containers.pods.found_pods()
        return [uid for uid in {*self._pleg.pods, *on_disk, *in_groups} if not is_known(uid)]


def _user_namespaces(config: CriNodeConfig, clock: Clock) -> UserNamespaceManager:
    ids = config.settings.user_namespace_ids
    return UserNamespaceManager(config.paths, read_kubelet_range(ids), ids, config.settings.max_pods, clock.random())


def _pull_manager(config: CriNodeConfig, clock: Clock) -> ImagePullManager | None:
    """Return the records of image pulls; None without the feature gate."""
    settings = config.settings
    if not features_of(settings.feature_gates).is_enabled("KubeletEnsureSecretPulledImages"):
        return None
    policy = new_verification_policy(
        settings.image_pull_credentials_verification_policy, settings.preloaded_images_verification_allowlist
    )
    return ImagePullManager(PullRecords(config.paths.root), policy, clock)


def _pull_keyring(config: CriNodeConfig, client: Client, clock: Clock) -> PullKeyring:
    features = features_of(config.settings.feature_gates)
    has_tokens = features.is_enabled("KubeletServiceAccountTokenForCredentialProviders")
    tokens = PluginTokens(client, clock) if has_tokens else None
    plugins = new_plugin_providers(config.plugins.providers, config.plugins.folder, tokens, clock)
    return PullKeyring(client, NodeDockerConfig(config.paths.root, Path.home(), clock), plugins)
