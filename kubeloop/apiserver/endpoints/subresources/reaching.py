"""Why a node can't be asked, in the words of whoever would have dialled it."""

from __future__ import annotations

from typing import Any

from kubeloop.api import errors
from kubeloop.apiserver.storage import Registry

_ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_KUBELET_PORT = 10250


def unreachable(registry: Registry, name: str) -> errors.ApiError:
    """What is answered in place of a node that nobody reaches."""
    node = registry.find("nodes", "", name)
    if node is None:
        return errors.not_found("", "nodes", name)
    host = _address_of(node)
    if not host:
        return errors.service_unavailable(f"no preferred addresses found; known addresses: [] of node {name}")
    port = node.status.daemon_endpoints.kubelet_endpoint.port or _KUBELET_PORT
    return errors.service_unavailable(
        f"error dialing backend: dial tcp {joined(host, port)}: connect: no route to host"
    )


def joined(host: str, port: object) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address_of(node: Any) -> str:
    by_type = {address.type: address.address for address in reversed(node.status.addresses)}
    return next((by_type[kind] for kind in _ADDRESS_TYPES if kind in by_type), "")
