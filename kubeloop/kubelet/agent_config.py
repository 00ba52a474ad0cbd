# SPDX-License-Identifier: Apache-2.0
"""Settings of the node agent, and the nodes that it registers according to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse
from kubeloop.api.pods.volumes import CONTROLLER_MANAGED_ATTACH_ANNOTATION
from kubeloop.clock import Clock
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.events.pod_events import EventLevel
from kubeloop.kubelet.node_status.lease_controller import LEASE_RENEW_SECONDS
from kubeloop.kubelet.node_status.registration import KUBELET_PORT, KubeletEndpoint, NodeShape, new_node
from kubeloop.kubelet.node_status.served_nodes import BY_KUBELET, SERVED_NODE_ANNOTATION
from kubeloop.kubelet.simulated.addresses import node_address
from kubeloop.kubelet.simulated.stages import StageRule

if TYPE_CHECKING:
    from kubeloop.kubelet.cri.node import CriNodeConfig

# Endpoint that the program adds to those of its nodes.
NodePage: TypeAlias = Callable[[NodeRequest], NodeResponse]


@dataclass(frozen=True, slots=True)
class StandaloneConfig:
    """Settings of an agent that is a separate program and serves nodes by their names only."""

    endpoints: Mapping[str, KubeletEndpoint]  # addresses of the nodes, by name
    has_node_rights_only: bool = False  # restricted to the rights of its single node
    register_nodes: bool = True  # create the Node objects; else wait until they exist
    max_heartbeat_seconds: float = (
        LEASE_RENEW_SECONDS  # maximum interval between heartbeats in seconds, if shorter than the lease requires
    )


@dataclass(frozen=True, slots=True)
class NodeAgentConfig:
    """Settings of the agent."""

    count: int = 0  # nodes to register: n1, n2, …
    shape: NodeShape = field(default_factory=NodeShape)
    event_level: EventLevel = "warnings"
    rules: tuple[StageRule, ...] = ()  # rules of a stage file
    static_pods: Path | None = None  # a folder of manifests
    untaint: bool = False  # remove the initial taint; for clusters without the controller that does
    host: str = ""  # listen address of nodes with their own ports
    first_port: int = 0  # port of the first node, increasing by one per node; 0 for none
    standalone: StandaloneConfig | None = None  # for a separate program
    cri: CriNodeConfig | None = None  # of a real node; simulated ones without it
    settings: KubeletConfiguration = field(default_factory=KubeletConfiguration)
    cluster_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()  # that other nodes have their pod CIDRs from
    pages: Mapping[str, NodePage] = field(default_factory=dict)  # further endpoints by path segment: flagz, statusz


def nodes_to_register(config: NodeAgentConfig, runtime: str, clock: Clock) -> dict[str, Node]:
    """Return the nodes to register, by name."""
    by = BY_KUBELET if config.standalone is not None else ""
    simulated = {SERVED_NODE_ANNOTATION: by} if config.cri is None else {}
    annotations = {**simulated, CONTROLLER_MANAGED_ATTACH_ANNOTATION: "true", **config.shape.annotations}
    shape = msgspec.structs.replace(config.shape, annotations=annotations, runtime=runtime)
    endpoints = config.standalone.endpoints if config.standalone is not None else _endpoints_of(config)
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
