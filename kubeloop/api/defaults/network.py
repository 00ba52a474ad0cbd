# SPDX-License-Identifier: Apache-2.0
"""Defaults of services, endpoints, network policies and ingress classes."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.empty_lists import null_if_empty
from kubeloop.api.generated.core_v1 import ClientIPConfig, Endpoints, Service, ServiceSpec, SessionAffinityConfig
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.networking_v1 import IngressClass, NetworkPolicy, NetworkPolicyPort

_STICKY_FOR_THREE_HOURS = SessionAffinityConfig(client_ip=ClientIPConfig(timeout_seconds=10800))


def default_service(service: Service) -> None:
    """Apply the defaults of a Service."""
    spec = service.spec
    _default_affinity(spec)
    if not spec.type:
        force_setattr(spec, "type", "ClusterIP")
    for port in spec.ports:
        if not port.protocol:
            force_setattr(port, "protocol", "TCP")
        if not port.target_port:
            force_setattr(port, "target_port", port.port)
    _default_traffic_policies(spec)
    if spec.type == "LoadBalancer":
        if spec.allocate_load_balancer_node_ports is None:
            force_setattr(spec, "allocate_load_balancer_node_ports", True)
        for ingress in service.status.load_balancer.ingress:
            if ingress.ip and ingress.ip_mode is None:
                force_setattr(ingress, "ip_mode", "VIP")


def default_endpoints(endpoints: Endpoints) -> None:
    """Apply the defaults of Endpoints."""
    for subset in endpoints.subsets:
        for port in subset.ports:
            if not port.protocol:
                force_setattr(port, "protocol", "TCP")


def default_endpoint_slice(endpoint_slice: EndpointSlice) -> None:
    """Apply the defaults of an EndpointSlice."""
    null_if_empty(endpoint_slice, "endpoints", "ports")
    for port in endpoint_slice.ports or ():
        if port.name is None:
            force_setattr(port, "name", "")
        if port.protocol is None:
            force_setattr(port, "protocol", "TCP")


def default_network_policy(policy: NetworkPolicy) -> None:
    """Apply the defaults of a NetworkPolicy."""
    spec = policy.spec
    if not spec.policy_types:
        force_setattr(spec, "policy_types", ("Ingress", "Egress") if spec.egress else ("Ingress",))
    for incoming in spec.ingress:
        _default_policy_ports(incoming.ports)
    for outgoing in spec.egress:
        _default_policy_ports(outgoing.ports)


def default_ingress_class(ingress_class: IngressClass) -> None:
    """Apply the defaults of an IngressClass."""
    parameters = ingress_class.spec.parameters
    if parameters is not None and parameters.scope is None:
        force_setattr(parameters, "scope", "Cluster")


def _default_policy_ports(ports: Iterable[NetworkPolicyPort]) -> None:
    for port in ports:
        if port.protocol is None:
            force_setattr(port, "protocol", "TCP")


def _default_affinity(spec: ServiceSpec) -> None:
    if not spec.session_affinity:
        force_setattr(spec, "session_affinity", "None")
    if spec.session_affinity == "None":
        if spec.session_affinity_config is not None:
            force_setattr(spec, "session_affinity_config", None)
    elif spec.session_affinity == "ClientIP":
        config = spec.session_affinity_config
        if config is None or config.client_ip is None or config.client_ip.timeout_seconds is None:
            force_setattr(spec, "session_affinity_config", _STICKY_FOR_THREE_HOURS)


def _default_traffic_policies(spec: ServiceSpec) -> None:
    reachable_from_outside = spec.type in ("LoadBalancer", "NodePort") or (
        spec.type == "ClusterIP" and len(spec.external_ips) > 0
    )
    if reachable_from_outside and not spec.external_traffic_policy:
        force_setattr(spec, "external_traffic_policy", "Cluster")
    if spec.internal_traffic_policy is None and spec.type in ("NodePort", "LoadBalancer", "ClusterIP"):
        force_setattr(spec, "internal_traffic_policy", "Cluster")
