"""When a service wants a load balancer, when a change matters to it, and which nodes it leads to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kubeloop.api.generated.core_v1 import Node, Service

FINALIZER: Final = "service.kubernetes.io/load-balancer-cleanup"
EXCLUDED: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
NAMES_TOLD: Final = 20  # of nodes, in one event
# How Go spells a boolean; whatever else a label says, the node is left out.
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")

# What makes two sets of hosts different: a node's name, and its instance.
Hosts = frozenset[tuple[str, str]]


def wants(service: Service) -> bool:
    """Whether a load balancer of ours is asked for; one of a class is somebody else's."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def needs_cleanup(service: Service) -> bool:
    """Whether there may be a balancer that has to go."""
    if FINALIZER not in service.metadata.finalizers:
        return False
    return service.metadata.deletion_timestamp is not None or service.spec.type != "LoadBalancer"


def needs_update(old: Service, new: Service) -> bool:
    """Whether a change of a service is one of its load balancer."""
    if not wants(old) and not wants(new):
        return False
    return wants(old) != wants(new) or _said(old) != _said(new)


def _said(service: Service) -> tuple[Any, ...]:
    """All that a balancer is made by."""
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


def is_included(node: Node) -> bool:
    """Whether the node's label allows load balancers to lead to it."""
    said = node.metadata.labels.get(EXCLUDED)
    return said is None or said in _FALSE


def is_host(node: Node) -> bool:
    """Whether load balancers lead to a node. One that is not ready stays: the cloud's own health checks see to that."""
    is_going = any(one.key == TO_BE_DELETED for one in node.spec.taints)
    return node.metadata.deletion_timestamp is None and is_included(node) and not is_going


def matters(old: Node, new: Node) -> bool:
    """Whether a change of a node is one of the hosts."""
    return is_included(old) != is_included(new) or old.spec.provider_id != new.spec.provider_id


def hosts_of(nodes: Iterable[Node]) -> Hosts:
    return frozenset((one.metadata.name, one.spec.provider_id) for one in nodes)


def told_names(nodes: Sequence[Node]) -> str:
    """Names as Go prints a list, of not too many."""
    names = sorted(one.metadata.name for one in nodes[:NAMES_TOLD])
    if len(nodes) > NAMES_TOLD:
        names.append(f"<{len(nodes) - NAMES_TOLD} more>")
    return f"[{' '.join(names)}]"
