# SPDX-License-Identifier: Apache-2.0
"""Ports of Services as the proxy sees them: the fields of one port in one IP family. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kubeloop.api.generated.core_v1 import Service, ServiceSpec
from kubeloop.proxy.ip_family import IPFamily, addresses_of, family_of, networks_of, parse_ip

DEFAULT_AFFINITY_SECONDS: Final = 10800
_EXTERNAL_TYPES: Final = ("LoadBalancer", "NodePort")


class NamespacedName(NamedTuple):
    """Namespace and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ServicePortName(NamedTuple):
    """Identity of a port of a Service."""

    service: NamespacedName
    port: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.service}:{self.port}" if self.port else str(self.service)


@dataclass(frozen=True, slots=True)
class ServicePortInfo:
    """One port of a Service in one IP family; addresses are text in their shortest form."""

    cluster_ip: str
    port: int
    protocol: str  # TCP, UDP or SCTP
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    load_balancer_vips: tuple[str, ...] = ()
    source_ranges: tuple[str, ...] = ()  # empty: all sources are allowed
    affinity_seconds: int = 0  # of session affinity by client IP; 0 without affinity
    health_check_node_port: int = 0
    external_policy_local: bool = False
    internal_policy_local: bool = False

    @property
    def is_externally_accessible(self) -> bool:
        """True if there is a node port, an external IP or a load balancer's VIP."""
        return bool(self.node_port or self.load_balancer_vips or self.external_ips)

    @property
    def uses_cluster_endpoints(self) -> bool:
        """True if any traffic goes to endpoints on all nodes: also for the node's own traffic to external IPs."""
        return not self.internal_policy_local or self.is_externally_accessible

    @property
    def uses_local_endpoints(self) -> bool:
        """True if any traffic goes only to endpoints on this node."""
        return self.internal_policy_local or (self.external_policy_local and self.is_externally_accessible)


def service_name_of(service: Service) -> NamespacedName:
    """Return the name of a Service."""
    return NamespacedName(service.metadata.namespace, service.metadata.name)


def service_ports_of(
    service: Service, family: IPFamily, *, allow_external_ips: bool = True
) -> Mapping[ServicePortName, ServicePortInfo]:
    """Return the ports of a Service in a family; none if it is headless, has no IP or only an external name."""
    spec = service.spec
    if spec.cluster_ip in ("", "None") or spec.type == "ExternalName":
        return {}
    address = parse_ip(cluster_ip_of(service, family))
    if address is None:
        return {}
    name, shared = service_name_of(service), _shared_fields(service, family, allow_external_ips)
    return {
        ServicePortName(name, port.name, port.protocol or "TCP"): ServicePortInfo(
            cluster_ip=str(address),
            port=port.port,
            protocol=port.protocol or "TCP",
            node_port=port.node_port,
            **shared,
        )
        for port in spec.ports
    }


def cluster_ip_of(service: Service, family: IPFamily) -> str:
    """Return the cluster IP of a family, or an empty string."""
    spec = service.spec
    if not spec.ip_families:
        return spec.cluster_ip if family_of(spec.cluster_ip) is family else ""
    pairs = zip(spec.ip_families, spec.cluster_ips, strict=False)
    return next((address for name, address in pairs if name == family.name), "")


def _shared_fields(service: Service, family: IPFamily, allow_external_ips: bool) -> dict[str, Any]:
    """Return the fields that all ports of a Service have in common."""
    spec = service.spec
    ingress = [one.ip for one in service.status.load_balancer.ingress if one.ip and one.ip_mode in (None, "VIP")]
    ranges = networks_of(spec.load_balancer_source_ranges, family)
    is_external = spec.type in _EXTERNAL_TYPES or (spec.type == "ClusterIP" and bool(spec.external_ips))
    external_local = is_external and spec.external_traffic_policy == "Local"
    has_health_check = spec.type == "LoadBalancer" and external_local
    return {
        "external_ips": addresses_of(spec.external_ips, family) if allow_external_ips else (),
        "load_balancer_vips": addresses_of(ingress, family),
        "source_ranges": () if any(one.prefixlen == 0 for one in ranges) else tuple(map(str, ranges)),
        "affinity_seconds": _affinity_seconds(spec),
        "health_check_node_port": spec.health_check_node_port if has_health_check else 0,
        "external_policy_local": external_local,
        "internal_policy_local": spec.internal_traffic_policy == "Local",
    }


def _affinity_seconds(spec: ServiceSpec) -> int:
    if spec.session_affinity != "ClientIP":
        return 0
    config = spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return seconds or DEFAULT_AFFINITY_SECONDS
