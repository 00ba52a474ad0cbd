"""From a service to what Amazon has to have for it: names, targets, listeners and who may come. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubeloop.api.generated.core_v1 import Node, Service
from kubeloop.cloud.aws.instances import instance_id_of
from kubeloop.cloud.provider import CloudError
from kubeloop.cloud.source_ranges import source_ranges

INTERNAL: Final = "service.beta.kubernetes.io/aws-load-balancer-internal"
LONGEST_NAME: Final = 32  # Amazon's bound
_PREFIX: Final = 20  # of a balancer's name in those of its target groups


@dataclass(frozen=True, slots=True)
class Port:
    """One listener, and the target group that it leads to."""

    port: int
    node_port: int
    protocol: str
    group: str  # a target group's port never changes, so its name holds it


def name_of(service: Service) -> str:
    """Upstream's name for a balancer: from the uid, so that it is never another service's."""
    return f"a{service.metadata.uid}".replace("-", "")[:LONGEST_NAME]


def group_prefix(name: str) -> str:
    return f"{name[:_PREFIX]}-"


def ports_of(service: Service) -> tuple[Port, ...]:
    """Raises `CloudError` for a port that nodes do not have."""
    name, found = name_of(service), []
    for one in service.spec.ports:
        protocol = one.protocol or "TCP"
        if protocol not in ("TCP", "UDP"):
            raise CloudError(f"the protocol {protocol} can't be balanced")
        if not one.node_port:
            raise CloudError(f"port {one.port} has no node port")
        group = f"{group_prefix(name)}{one.node_port}-{protocol[0].lower()}"
        found.append(Port(one.port, one.node_port, protocol, group))
    return tuple(found)


def targets_of(nodes: Sequence[Node]) -> frozenset[str]:
    """The nodes' instances."""
    return frozenset(filter(None, (instance_id_of(one.spec.provider_id) for one in nodes)))


def health_check(service: Service) -> dict[str, Any]:
    """How Amazon finds out whether a node can serve: where only those with endpoints can, they tell by HTTP."""
    spec = service.spec
    if spec.external_traffic_policy == "Local" and spec.health_check_node_port:
        return {
            "HealthCheckProtocol": "HTTP",
            "HealthCheckPath": "/healthz",
            "HealthCheckPort": str(spec.health_check_node_port),
        }
    return {"HealthCheckProtocol": "TCP"}


def stickiness(service: Service) -> list[dict[str, str]]:
    """Attributes of a target group; Amazon knows no timeout for it."""
    sticky = "true" if service.spec.session_affinity == "ClientIP" else "false"
    return [{"Key": "stickiness.enabled", "Value": sticky}, {"Key": "stickiness.type", "Value": "source_ip"}]


def scheme(service: Service) -> str:
    said = service.metadata.annotations.get(INTERNAL, "")
    return "internet-facing" if said in ("", "false") else "internal"


def permissions(service: Service) -> frozenset[tuple[str, int, str]]:
    """Who may come: protocol, port and range."""
    ranges = source_ranges(service)
    return frozenset(((one.protocol or "TCP").lower(), one.port, cidr) for one in service.spec.ports for cidr in ranges)
