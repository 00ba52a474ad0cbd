# SPDX-License-Identifier: Apache-2.0
"""Choice of a port's endpoints: traffic policies, readiness and topology hints decide, as in upstream. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.service_port import ServicePortInfo

TopologyMode = Literal["", "PreferSameZone", "PreferSameNode"]
Endpoints = tuple[EndpointInfo, ...]


class NodeTopology(NamedTuple):
    """Name and zone of the proxy's node."""

    node_name: str
    zone: str = ""


class EndpointSelection(NamedTuple):
    """Endpoints for the traffic policies Cluster and Local, and their union.

    `has_endpoints` is True if the port has an endpoint anywhere, also if none can be reached from this node.
    """

    cluster: Endpoints = ()
    local: Endpoints = ()
    reachable: Endpoints = ()
    has_endpoints: bool = False


def select_endpoints(
    endpoints: Sequence[EndpointInfo], port: ServicePortInfo, topology: NodeTopology
) -> EndpointSelection:
    """Choose the endpoints of a port: ready ones, or terminating ones that still serve if none is ready."""
    cluster: Endpoints = ()
    mode: TopologyMode = ""
    if port.uses_cluster_endpoints:
        mode = topology_mode_of(endpoints, topology)
        cluster = _cluster_endpoints(endpoints, mode, topology)
    if not port.uses_local_endpoints:
        return EndpointSelection(cluster, (), cluster, bool(cluster))
    local = _ready_or_serving(one for one in endpoints if one.is_local)
    has_endpoints = any(one.is_ready or _is_fallback(one) for one in endpoints)
    if not port.uses_cluster_endpoints:
        return EndpointSelection((), local, local, has_endpoints)
    union = {one.address: one for one in (*cluster, *local)}
    return EndpointSelection(cluster, local, tuple(union[key] for key in sorted(union)), has_endpoints)


def topology_mode_of(endpoints: Sequence[EndpointInfo], topology: NodeTopology) -> TopologyMode:
    """Return the topology that hints allow: every ready endpoint needs a hint, and one must be for this place."""
    ready = [one for one in endpoints if one.is_ready]
    if not ready:
        return ""
    node, zone = topology
    if all(one.node_hints for one in ready) and any(node in one.node_hints for one in ready):
        return "PreferSameNode"
    if all(one.zone_hints for one in ready) and any(zone in one.zone_hints for one in ready):
        return "PreferSameZone"
    return ""


def _cluster_endpoints(endpoints: Sequence[EndpointInfo], mode: TopologyMode, topology: NodeTopology) -> Endpoints:
    node, zone = topology
    if mode == "PreferSameNode":
        return tuple(one for one in endpoints if one.is_ready and node in one.node_hints)
    if mode == "PreferSameZone":
        return tuple(one for one in endpoints if one.is_ready and zone in one.zone_hints)
    return _ready_or_serving(endpoints)


def _ready_or_serving(endpoints: Iterable[EndpointInfo]) -> Endpoints:
    """Return the ready endpoints; without any, those that terminate and still serve."""
    found = tuple(endpoints)
    ready = tuple(one for one in found if one.is_ready)
    return ready or tuple(one for one in found if _is_fallback(one))


def _is_fallback(endpoint: EndpointInfo) -> bool:
    return endpoint.is_serving and endpoint.is_terminating
