# SPDX-License-Identifier: Apache-2.0
"""Settings of a real node from its configuration: its container runtime, machine, folders and name servers."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from kubeloop.api.quota.amounts import amounts_of
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.clock import Clock
from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.cgroups.hierarchy import read_hierarchy
from kubeloop.kubelet.cm.cgroups.qos import QosPolicy
from kubeloop.kubelet.cm.cgroups.resource_config import PodCgroupPolicy
from kubeloop.kubelet.cm.container_manager import ContainerManagerConfig
from kubeloop.kubelet.cm.cpus.cpuset import parse_cpuset
from kubeloop.kubelet.cm.node_allocatable import NodeAllocatableConfig, node_allocatable, with_reserved_cpus
from kubeloop.kubelet.cm.swap import has_swap_controller, read_swap_capacity
from kubeloop.kubelet.config.decode import features_of
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.credentialprovider.provider_config import CredentialPlugins
from kubeloop.kubelet.cri.config.dns import DnsSettings, parse_resolv_conf
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.config.resource_policy import MemoryQosPolicy, ResourcePolicy, SwapPolicy
from kubeloop.kubelet.cri.gc.image_gc import ImageGCPolicy
from kubeloop.kubelet.cri.gc.log_manager import LogRotationPolicy
from kubeloop.kubelet.cri.messages.sandbox import DNSConfig
from kubeloop.kubelet.cri.node import CriNodeConfig, RuntimeConnection, connect_runtime
from kubeloop.kubelet.cri.services import ImageService
from kubeloop.kubelet.cri.throttled_images import ThrottledImageService
from kubeloop.kubelet.eviction.signals import eviction_policy_of, parse_eviction_hard
from kubeloop.kubelet.node_status.machine import capacity_of, read_resources, system_info
from kubeloop.kubelet.node_status.registration import NodeShape

_RETRY_SECONDS = 1.0
_NOTHING_ENFORCED = "none"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RealNodeFlags:
    """Settings of a real node that are not in its configuration."""

    root: Path
    name: str
    address: str
    plugins: CredentialPlugins = field(default_factory=CredentialPlugins)


async def real_node_config(settings: KubeletConfiguration, flags: RealNodeFlags, clock: Clock) -> CriNodeConfig:
    """Connect to the container runtime, waiting until it answers, and return the settings of the node."""
    paths = NodePaths(flags.root, Path(settings.pod_logs_dir))
    version, machine = read_hierarchy().version, read_resources(paths.root)
    resources = container_manager_config(settings, version)
    allocatable = node_allocatable(resources.node_allocatable, amounts_of(capacity_of(machine, 0)))
    return CriNodeConfig(
        await _connect(settings, clock),
        flags.name,
        (flags.address,),
        machine,
        paths,
        DnsSettings(settings.cluster_dns, settings.cluster_domain, _host_dns(settings)),
        resources,
        limits=resource_policy(settings, version, allocatable["memory"].value()),
        parallel_pulls=_parallel_pulls(settings),
        log_rotation=LogRotationPolicy(
            parse_quantity(settings.container_log_max_size).value(),
            settings.container_log_max_files,
            settings.container_log_monitor_interval,
        ),
        image_gc=ImageGCPolicy(
            settings.image_gc_high_threshold_percent,
            settings.image_gc_low_threshold_percent,
            settings.image_minimum_gc_age,
            settings.image_maximum_gc_age,
            settings.node_status_max_images,
        ),
        eviction=eviction_policy_of(settings),
        settings=settings,
        plugins=flags.plugins,
    )


def container_manager_config(settings: KubeletConfiguration, cgroup_version: int) -> ContainerManagerConfig:
    """Return the settings of the control groups. Raises `ValueError` for malformed `reservedSystemCPUs`."""
    qos = _memory_qos(settings)
    has_qos = qos.is_enabled and cgroup_version == 2
    return ContainerManagerConfig(
        cgroup_root=settings.cgroup_root or "/",
        cgroup_driver="systemd" if settings.cgroup_driver == "systemd" else "cgroupfs",
        node_allocatable=with_reserved_cpus(
            NodeAllocatableConfig(
                settings.system_reserved,
                settings.kube_reserved,
                parse_eviction_hard(settings.eviction_hard),
                frozenset(settings.enforce_node_allocatable) - {_NOTHING_ENFORCED},
                settings.system_reserved_cgroup,
                settings.kube_reserved_cgroup,
            ),
            len(parse_cpuset(settings.reserved_system_cpus)),
        ),
        pods=PodCgroupPolicy(
            settings.cpu_cfs_quota,
            _microseconds(settings.cpu_cfs_quota_period),
            settings.pod_pids_limit,
            has_qos,
            qos.reserves_memory,
            qos.throttling_factor,
        ),
        qos=QosPolicy(memory_qos=has_qos, reserves_memory=qos.reserves_memory),
    )


def resource_policy(settings: KubeletConfiguration, cgroup_version: int, allocatable: int) -> ResourcePolicy:
    """Return the settings for the limits of containers; `allocatable` is the memory of the node for pods."""
    return ResourcePolicy(
        settings.cpu_cfs_quota,
        _microseconds(settings.cpu_cfs_quota_period),
        cgroup_version,
        settings.single_process_oom_kill,
        SwapPolicy(settings.memory_swap.swap_behavior, has_swap_controller(cgroup_version), read_swap_capacity()),
        replace(_memory_qos(settings), allocatable=allocatable),
    )


def _memory_qos(settings: KubeletConfiguration) -> MemoryQosPolicy:
    return MemoryQosPolicy(
        features_of(settings.feature_gates).is_enabled("MemoryQoS"),
        settings.memory_reservation_policy == "TieredReservation",
        settings.memory_throttling_factor,
    )


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _parallel_pulls(settings: KubeletConfiguration) -> int:
    """Return how many images are pulled at a time; 0 for any number."""
    return 1 if settings.serialize_image_pulls else settings.max_parallel_image_pulls or 0


def machine_shape(shape: NodeShape, node: CriNodeConfig) -> NodeShape:
    """Return the shape of a node with the resources and facts of the machine."""
    per_core = node.settings.pods_per_core
    pods = min(int(shape.pods), per_core * node.machine.cpus) if per_core else int(shape.pods)
    capacity = capacity_of(node.machine, pods)
    basic = ("cpu", "memory", "ephemeral-storage", "pods")
    allocatable = node_allocatable(node.resources.node_allocatable, amounts_of(capacity))
    return msgspec.structs.replace(
        shape,
        cpu=capacity["cpu"],
        memory=capacity["memory"],
        storage=capacity["ephemeral-storage"],
        pods=capacity["pods"],
        resources={name: amount for name, amount in capacity.items() if name not in basic},
        allocatable={name: str(amount) for name, amount in allocatable.items()},
        info=system_info(node.connection.version),
    )


async def _connect(settings: KubeletConfiguration, clock: Clock) -> RuntimeConnection:
    endpoint, seconds = settings.container_runtime_endpoint, settings.runtime_request_timeout

    def new_images(channel: UnixChannel) -> ImageService:
        own = UnixChannel(settings.image_service_endpoint) if settings.image_service_endpoint else channel
        qps, burst = settings.registry_pull_qps, settings.registry_burst
        return ThrottledImageService(own, seconds, qps, burst, clock) if qps else ImageService(own, seconds)

    told = ""
    while True:
        try:
            return await connect_runtime(endpoint, seconds, new_images)
        except RpcError as error:
            if error.details != told:
                log.error("the container runtime at %s does not answer: %s", endpoint, error)
            told = error.details
        await asyncio.sleep(_RETRY_SECONDS)


def _host_dns(settings: KubeletConfiguration) -> DNSConfig:
    if not settings.resolv_conf:
        return DNSConfig()
    try:
        return parse_resolv_conf(Path(settings.resolv_conf).read_text())
    except OSError:
        return DNSConfig(servers=("127.0.0.1",))
