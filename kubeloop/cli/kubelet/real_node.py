# SPDX-License-Identifier: Apache-2.0
"""Settings of a real node from flags: its container runtime, machine, folders and name servers."""

from __future__ import annotations

import argparse
import asyncio
import logging

import msgspec

from kubeloop.api.quota.amounts import amounts_of
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.container_manager import ContainerManagerConfig
from kubeloop.kubelet.cm.node_allocatable import NodeAllocatableConfig, node_allocatable
from kubeloop.kubelet.cri.config.dns import DnsSettings, parse_resolv_conf
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.gc.image_gc import ImageGCPolicy
from kubeloop.kubelet.cri.gc.log_manager import LogRotationPolicy
from kubeloop.kubelet.cri.messages.sandbox import DNSConfig
from kubeloop.kubelet.cri.node import CriNodeConfig, RuntimeConnection, connect_runtime
from kubeloop.kubelet.node_status.machine import capacity_of, read_resources, system_info
from kubeloop.kubelet.node_status.registration import NodeShape

_RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)


async def real_node_config(options: argparse.Namespace, name: str, address: str) -> CriNodeConfig:
    """Connect to the container runtime, waiting until it answers, and return the settings of the node."""
    paths = NodePaths(options.root_dir, options.pod_logs_dir)
    return CriNodeConfig(
        await _connect(options),
        name,
        (address,),
        read_resources(paths.root),
        paths,
        DnsSettings(options.cluster_dns, options.cluster_domain, _host_dns(options)),
        ContainerManagerConfig(
            cgroup_root=options.cgroup_root,
            node_allocatable=NodeAllocatableConfig(hard_eviction=options.eviction_hard),
        ),
        log_rotation=LogRotationPolicy(options.container_log_max_size, options.container_log_max_files),
        image_gc=_image_gc(options),
        eviction_hard=options.eviction_hard,
    )


def machine_shape(shape: NodeShape, node: CriNodeConfig) -> NodeShape:
    """Return the shape of a node with the resources and facts of the machine."""
    capacity = capacity_of(node.machine, int(shape.pods))
    basic = ("cpu", "memory", "ephemeral-storage", "pods")
    allocatable = node_allocatable(node.resources.node_allocatable, amounts_of(capacity))
    return msgspec.structs.replace(
        shape,
        cpu=capacity["cpu"],
        memory=capacity["memory"],
        storage=capacity["ephemeral-storage"],
        resources={name: amount for name, amount in capacity.items() if name not in basic},
        allocatable={name: str(amount) for name, amount in allocatable.items()},
        info=system_info(node.connection.version),
    )


def _image_gc(options: argparse.Namespace) -> ImageGCPolicy:
    high, low = options.image_gc_high_threshold, options.image_gc_low_threshold
    if low >= high:
        raise ValueError("--image-gc-low-threshold must be less than --image-gc-high-threshold")
    return ImageGCPolicy(high, low, options.minimum_image_ttl_duration)


async def _connect(options: argparse.Namespace) -> RuntimeConnection:
    told = ""
    while True:
        try:
            return await connect_runtime(options.container_runtime_endpoint, options.runtime_request_timeout)
        except RpcError as error:
            if error.details != told:
                log.error("the container runtime at %s does not answer: %s", options.container_runtime_endpoint, error)
            told = error.details
        await asyncio.sleep(_RETRY_SECONDS)


def _host_dns(options: argparse.Namespace) -> DNSConfig:
    try:
        return parse_resolv_conf(options.resolv_conf.read_text())
    except OSError:
        return DNSConfig(servers=("127.0.0.1",))
