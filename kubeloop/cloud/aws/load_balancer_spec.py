# SPDX-License-Identifier: Apache-2.0
"""Derives names, targets, listeners and permissions from a Service. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubeloop.api.generated.core_v1 import Node, Service
from kubeloop.cloud.aws.instances import instance_id_of
from kubeloop.cloud.provider import CloudError
from kubeloop.cloud.source_ranges import source_ranges

INTERNAL: Final = "service.beta.kubernetes.io/aws-load-balancer-internal"
MAX_NAME_LENGTH: Final = 32  # limit of AWS
_PREFIX: Final = 20  # length of a load balancer's name within those of its target groups


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """A listener and its target group."""

    port: int
    node_port: int
    protocol: str
    group: str  # contains the node port, since a target group's port is immutable


def load_balancer_name(service: Service) -> str:
    """Return upstream's name of a load balancer, derived from the UID and so unique to the Service."""
    return f"a{service.metadata.uid}".replace("-", "")[:MAX_NAME_LENGTH]


def group_prefix(name: str) -> str:
    """Return the prefix of the names of target groups."""
    return f"{name[:_PREFIX]}-"


def ports_of(service: Service) -> tuple[ListenerSpec, ...]:
    """Return the ports of a Service; raises `CloudError` for an unsupported one."""
    name, found = load_balancer_name(service), []
    for one in service.spec.ports:
        protocol = one.protocol or "TCP"
        if protocol not in ("TCP", "UDP"):
            raise CloudError(f"the protocol {protocol} is not supported by load balancers")
        if not one.node_port:
            raise CloudError(f"port {one.port} has no node port")
        group = f"{group_prefix(name)}{one.node_port}-{protocol[0].lower()}"
        found.append(ListenerSpec(one.port, one.node_port, protocol, group))
    return tuple(found)


def targets_of(nodes: Sequence[Node]) -> frozenset[str]:
    """Return the instance IDs of the nodes."""
    return frozenset(filter(None, (instance_id_of(one.spec.provider_id) for one in nodes)))


def health_check(service: Service) -> dict[str, Any]:
    """Build the health check: by HTTP if only nodes with endpoints can serve, else by TCP."""
    spec = service.spec
    if spec.external_traffic_policy == "Local" and spec.health_check_node_port:
        return {
            "HealthCheckProtocol": "HTTP",
            "HealthCheckPath": "/healthz",
            "HealthCheckPort": str(spec.health_check_node_port),
        }
    return {"HealthCheckProtocol": "TCP"}


def stickiness(service: Service) -> list[dict[str, str]]:
    """Build the stickiness attributes of a target group; AWS has no timeout for it."""
    sticky = "true" if service.spec.session_affinity == "ClientIP" else "false"
    return [{"Key": "stickiness.enabled", "Value": sticky}, {"Key": "stickiness.type", "Value": "source_ip"}]


def scheme(service: Service) -> str:
    """Return the scheme: internal or internet-facing."""
    said = service.metadata.annotations.get(INTERNAL, "")
    return "internet-facing" if said in ("", "false") else "internal"


def permissions(service: Service) -> frozenset[tuple[str, int, str]]:
    """Return the allowed protocols, ports and source ranges."""
    ranges = source_ranges(service)
    return frozenset(((one.protocol or "TCP").lower(), one.port, cidr) for one in service.spec.ports for cidr in ranges)
