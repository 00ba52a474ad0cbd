# SPDX-License-Identifier: Apache-2.0
"""Strategy of Services: a change of type drops fields that were allocated for the old type.

The allocator of IPs and ports calls `normalize_cluster_ips` and `patch_allocated_values` before validation.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import LoadBalancerStatus, Service, ServiceSpec
from kubeloop.api.strategy.base import RESETS_SPEC, Strategy


def normalize_cluster_ips(new: Service, old: Service | None) -> None:
    """Derive clusterIPs for clients that set only clusterIP."""
    spec = new.spec
    if old is None:
        if spec.cluster_ip and not spec.cluster_ips:
            force_setattr(spec, "cluster_ips", (spec.cluster_ip,))
        return
    before = old.spec
    if spec.cluster_ip == before.cluster_ip:
        if before.cluster_ips and not spec.cluster_ips:
            force_setattr(spec, "cluster_ips", before.cluster_ips)
    elif spec.cluster_ips == before.cluster_ips:
        force_setattr(spec, "cluster_ips", (spec.cluster_ip,) if spec.cluster_ip else ())


def patch_allocated_values(new: Service, old: Service) -> None:
    """Keep allocated IPs and ports for a client that sends its manifest again without them."""
    spec, before = new.spec, old.spec
    if needs_cluster_ip(before) and needs_cluster_ip(spec):
        if not spec.cluster_ip:
            force_setattr(spec, "cluster_ip", before.cluster_ip)
        if not spec.cluster_ips and before.cluster_ips:
            force_setattr(spec, "cluster_ips", before.cluster_ips)
    if allocates_node_ports(before) and allocates_node_ports(spec):
        _keep_node_ports(spec, before)
    if needs_health_check_port(before) and needs_health_check_port(spec) and not spec.health_check_node_port:
        force_setattr(spec, "health_check_node_port", before.health_check_node_port)


def needs_cluster_ip(spec: ServiceSpec) -> bool:
    """Return True if the type of service has cluster IPs."""
    return spec.type != "ExternalName"


def allocates_node_ports(spec: ServiceSpec) -> bool:
    """Return True if the service gets node ports."""
    return spec.type == "NodePort" or (
        spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is not False
    )


def needs_health_check_port(spec: ServiceSpec) -> bool:
    """Return True if the service gets a health check node port."""
    return spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"


def is_externally_accessible(spec: ServiceSpec) -> bool:
    """Return True if the service is reachable from outside the cluster."""
    return spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and bool(spec.external_ips))


def _refine(new: Service, old: Service | None) -> None:
    if old is None:
        return
    _drop_addresses(new.spec, old.spec)
    _drop_ports(new.spec, old.spec)
    _drop_balancing(new.spec, old.spec)
    if new.spec.type != "LoadBalancer" and new.status.load_balancer.ingress:
        force_setattr(new, "status", replace(new.status, load_balancer=LoadBalancerStatus()))


def _drop_addresses(spec: ServiceSpec, before: ServiceSpec) -> None:
    """Clear cluster IPs that are unchanged; validation rejects changed ones."""
    if not needs_cluster_ip(before) or needs_cluster_ip(spec):
        return
    if (spec.cluster_ip, spec.cluster_ips) == (before.cluster_ip, before.cluster_ips):
        force_setattr(spec, "cluster_ip", "")
        force_setattr(spec, "cluster_ips", ())
    if spec.ip_families == before.ip_families:
        force_setattr(spec, "ip_families", ())
    if (spec.ip_family_policy or "") == (before.ip_family_policy or ""):
        force_setattr(spec, "ip_family_policy", None)


def _drop_ports(spec: ServiceSpec, before: ServiceSpec) -> None:
    with_node_ports = ("NodePort", "LoadBalancer")
    leaves_node_ports = before.type in with_node_ports and spec.type not in with_node_ports
    if leaves_node_ports and _node_ports(spec) <= _node_ports(before):
        for port in spec.ports:
            force_setattr(port, "node_port", 0)
    leaves_health_check = needs_health_check_port(before) and not needs_health_check_port(spec)
    if leaves_health_check and spec.health_check_node_port == before.health_check_node_port:
        force_setattr(spec, "health_check_node_port", 0)


def _drop_balancing(spec: ServiceSpec, before: ServiceSpec) -> None:
    if before.type == "LoadBalancer" and spec.type != "LoadBalancer":
        if spec.allocate_load_balancer_node_ports == before.allocate_load_balancer_node_ports:
            force_setattr(spec, "allocate_load_balancer_node_ports", None)
        if spec.load_balancer_class == before.load_balancer_class:
            force_setattr(spec, "load_balancer_class", None)
    hides = is_externally_accessible(before) and not is_externally_accessible(spec)
    if hides and spec.external_traffic_policy == before.external_traffic_policy:
        force_setattr(spec, "external_traffic_policy", "")


def _keep_node_ports(spec: ServiceSpec, before: ServiceSpec) -> None:
    taken = _node_ports(before) & _node_ports(spec)
    by_name = {port.name: port.node_port for port in before.ports}
    for port in spec.ports:
        known = by_name.get(port.name, 0)
        if not port.node_port and known and known not in taken:
            force_setattr(port, "node_port", known)


def _node_ports(spec: ServiceSpec) -> set[int]:
    return {port.node_port for port in spec.ports if port.node_port}


SERVICE = Strategy(has_status=True, reset_fields=RESETS_SPEC, allow_create_on_update=True, refine=_refine)
