# SPDX-License-Identifier: Apache-2.0
"""Decides if a Service needs a load balancer, which changes matter, and which nodes are used. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kubeloop.api.generated.core_v1 import Node, Service

FINALIZER: Final = "service.kubernetes.io/load-balancer-cleanup"
EXCLUDED: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
MAX_NODE_NAMES: Final = 20  # node names per event
# Go's spellings of false; with any other value the node is excluded.
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")

# Identity of hosts: name and instance of each node.
Hosts = frozenset[tuple[str, str]]


def wants_load_balancer(service: Service) -> bool:
    """Return True if the Service needs our load balancer; one with a class belongs to another controller."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def needs_cleanup(service: Service) -> bool:
    """Return True if there may be a load balancer to delete."""
    if FINALIZER not in service.metadata.finalizers:
        return False
    return service.metadata.deletion_timestamp is not None or service.spec.type != "LoadBalancer"


def needs_update(old: Service, new: Service) -> bool:
    """Return True if a change of a Service affects its load balancer."""
    if not wants_load_balancer(old) and not wants_load_balancer(new):
        return False
    return wants_load_balancer(old) != wants_load_balancer(new) or _said(old) != _said(new)


def _said(service: Service) -> tuple[Any, ...]:
    """Return all properties that define a load balancer."""
    spec = service.spec
    return (
        service.metadata.uid,
        service.metadata.annotations,
        spec.load_balancer_source_ranges,
        spec.ports,
        spec.session_affinity,
        spec.session_affinity_config,
        spec.load_balancer_ip,
        spec.external_ips,
        spec.external_traffic_policy,
        spec.health_check_node_port,
        len(spec.ip_families),
    )


def is_not_excluded(node: Node) -> bool:
    """Return True if the node's label does not exclude it from load balancers."""
    said = node.metadata.labels.get(EXCLUDED)
    return said is None or said in _FALSE


def is_host(node: Node) -> bool:
    """Return True if load balancers use the node; unready nodes stay, since the cloud has health checks."""
    is_going = any(one.key == TO_BE_DELETED for one in node.spec.taints)
    return node.metadata.deletion_timestamp is None and is_not_excluded(node) and not is_going


def should_sync_node(old: Node, new: Node) -> bool:
    """Return True if a change of a node affects the hosts."""
    return is_not_excluded(old) != is_not_excluded(new) or old.spec.provider_id != new.spec.provider_id


def hosts_of(nodes: Iterable[Node]) -> Hosts:
    """Return the identities of the nodes."""
    return frozenset((one.metadata.name, one.spec.provider_id) for one in nodes)


def format_node_names(nodes: Sequence[Node]) -> str:
    """Format node names as Go prints a list, up to a limit."""
    names = sorted(one.metadata.name for one in nodes[:MAX_NODE_NAMES])
    if len(nodes) > MAX_NODE_NAMES:
        names.append(f"<{len(nodes) - MAX_NODE_NAMES} more>")
    return f"[{' '.join(names)}]"
