# SPDX-License-Identifier: Apache-2.0
"""Chooses the connection to a node: its in-process agent, or its dialled kubelet; else the error to return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import SIMULATED_NODE_ANNOTATION, NodeDialer, PodDialer
from kubeloop.apiserver.registry.storage import StorageRegistry

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer
    from kubeloop.apiserver.kubelet_client.dialer import KubeletClient

_ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_KUBELET_PORT = 10250


def local_dialer(server: ApiServer, node: str) -> NodeDialer | None:
    """Return the in-process dialer if it has this node, else None."""
    return server.nodes.local_dialer(node)


def kubelet_dialer(server: ApiServer, node: str) -> KubeletClient:
    """Return the dialer for a node of another process; raises the error for an unreachable one.

    Addresses of simulated nodes are not routable: without the node in this process, no connection is tried.
    """
    found, kubelets = server.registry.get_object("nodes", "", node), server.nodes.kubelets
    if kubelets is None or found is None or found.metadata.annotations.get(SIMULATED_NODE_ANNOTATION) == "":
        raise unreachable_node_error(server.registry, node)
    return kubelets


def pod_dialer(server: ApiServer, node: str) -> PodDialer:
    """Return the dialer for a node's pods; raises the error for an unreachable one."""
    return local_dialer(server, node) or kubelet_dialer(server, node)


def unreachable_node_error(registry: StorageRegistry, name: str) -> errors.ApiError:
    """Return the error for a node that cannot be reached."""
    node = registry.get_object("nodes", "", name)
    if node is None:
        return errors.not_found("", "nodes", name)
    host = _address_of(node)
    if not host:
        return errors.service_unavailable(f"no preferred addresses found; known addresses: [] of node {name}")
    port = node.status.daemon_endpoints.kubelet_endpoint.port or _KUBELET_PORT
    return errors.service_unavailable(
        f"error dialing backend: dial tcp {join_host_port(host, port)}: connect: no route to host"
    )


def join_host_port(host: str, port: object) -> str:
    """Return host:port, with brackets for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address_of(node: Any) -> str:
    by_type = {address.type: address.address for address in reversed(node.status.addresses)}
    return next((by_type[kind] for kind in _ADDRESS_TYPES if kind in by_type), "")
