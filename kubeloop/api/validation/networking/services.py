# SPDX-License-Identifier: Apache-2.0
"""Validation of Services: types, ports and traffic. See `service_addresses` for cluster IPs and families."""

from __future__ import annotations

from typing import Final

from kubeloop.api.addresses import check_legacy_cidr, parse_ip
from kubeloop.api.generated.core_v1 import LoadBalancerIngress, Service, ServicePort, SessionAffinityConfig
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_port_number
from kubeloop.api.validation.networking.endpoints import PROTOCOLS, validate_endpoint_ip
from kubeloop.api.validation.networking.service_addresses import (
    is_headless,
    validate_address_changes,
    validate_addresses,
)
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.objectmeta import METADATA, validate_labels
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    validate_dns_label,
    validate_dns_subdomain,
    validate_enum,
    validate_legacy_ip,
    validate_port_or_name,
    validate_qualified_name,
)

_SPEC: Final = FieldPath("spec")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES: Final = ("Proxy", "VIP")
_AFFINITY_MAX: Final = 86400
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"


def _validate_service(service: Service, old: Service | None) -> FieldErrors:
    spec = service.spec
    errors = _validate_topology_annotations(service)
    if not spec.ports and not is_headless(service) and spec.type != "ExternalName":
        errors.append(required(_SPEC.child("ports")))
    errors += _validate_by_type(service)
    names: set[str] = set()
    for index, port in enumerate(spec.ports):
        errors += _validate_port(port, len(spec.ports) > 1, names, _SPEC.child("ports").index(index))
    if spec.selector:
        errors += validate_labels(spec.selector, _SPEC.child("selector"))
    errors += _validate_affinity(spec.session_affinity, spec.session_affinity_config)
    errors += validate_addresses(service, old)
    errors += _validate_external_ips(service, old)
    errors += validate_enum(spec.type, _TYPES, _SPEC.child("type"))
    errors += _validate_unique_ports(spec.ports, spec.type)
    errors += _validate_source_ranges(service, old) + _validate_balancer(service)
    errors += _validate_external_traffic(service)
    if spec.internal_traffic_policy is not None and spec.internal_traffic_policy not in _TRAFFIC:
        errors.append(not_supported(_SPEC.child("internalTrafficPolicy"), spec.internal_traffic_policy, _TRAFFIC))
    if spec.traffic_distribution is not None and spec.traffic_distribution not in _DISTRIBUTIONS:
        errors.append(not_supported(_SPEC.child("trafficDistribution"), spec.traffic_distribution, _DISTRIBUTIONS))
    return errors


def _validate_topology_annotations(service: Service) -> FieldErrors:
    """Validate that the old and the new annotation for topology agree."""
    annotations = service.metadata.annotations
    if _HINTS in annotations and _MODE in annotations and annotations[_HINTS] != annotations[_MODE]:
        detail = f"must match annotations[{_HINTS}] when both are specified"
        return [invalid(METADATA.child("annotations").key(_MODE), annotations[_MODE], detail)]
    return []


def _validate_by_type(service: Service) -> FieldErrors:
    spec = service.spec
    if spec.type in ("LoadBalancer", "NodePort") and is_headless(service):
        detail = f"may not be set to 'None' for {spec.type} services"
        return [invalid(_SPEC.child("clusterIPs").index(0), spec.cluster_ips[0], detail)]
    if spec.type != "ExternalName":
        return []
    errors: FieldErrors = []
    for name, present in (
        ("clusterIPs", bool(spec.cluster_ips)),
        ("ipFamilies", bool(spec.ip_families)),
        ("ipFamilyPolicy", spec.ip_family_policy is not None),
    ):
        if present:
            errors.append(forbidden(_SPEC.child(name), "may not be set for ExternalName services"))
    name = spec.external_name.removesuffix(".")
    at = _SPEC.child("externalName")
    return errors + (validate_dns_subdomain(name, at) if name else [required(at)])


def _validate_port(port: ServicePort, needs_name: bool, names: set[str], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if port.name:
        errors += validate_dns_label(port.name, path.child("name"))
        if port.name in names:
            errors.append(duplicate(path.child("name"), port.name))
        names.add(port.name)
    elif needs_name:
        errors.append(required(path.child("name")))
    errors += [invalid(path.child("port"), port.port, message) for message in check_port_number(port.port)]
    errors += validate_enum(port.protocol, PROTOCOLS, path.child("protocol"))
    errors += validate_port_or_name(port.target_port, path.child("targetPort"))
    if port.app_protocol is not None:
        errors += validate_qualified_name(port.app_protocol, path.child("appProtocol"))
    return errors


def _validate_affinity(affinity: str, config: SessionAffinityConfig | None) -> FieldErrors:
    # Defaults complete the configuration of the affinity ClientIP, and remove it otherwise.
    if affinity != "ClientIP":
        return validate_enum(affinity, _AFFINITIES, _SPEC.child("sessionAffinity"))
    seconds = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    if seconds is None or 0 < seconds <= _AFFINITY_MAX:
        return []
    at = _SPEC.child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
    return [invalid(at, seconds, f"must be greater than 0 and less than {_AFFINITY_MAX}")]


def _validate_external_ips(service: Service, old: Service | None) -> FieldErrors:
    errors: FieldErrors = []
    kept = old.spec.external_ips if old is not None else ()
    for index, address in enumerate(service.spec.external_ips):
        at = _SPEC.child("externalIPs").index(index)
        errors += validate_legacy_ip(address, at, kept) or validate_endpoint_ip(address, at)
    return errors


def _validate_unique_ports(ports: tuple[ServicePort, ...], kind: str) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = _SPEC.child("ports").index(index)
        # The allocator of node ports rejects those that repeat.
        if port.node_port and kind == "ClusterIP":
            errors.append(forbidden(at.child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
        if (port.protocol, port.port) in seen:
            # Upstream compares, and shows, ports of which only these two fields are set.
            errors.append(duplicate(at, to_internal(ServicePort(protocol=port.protocol, port=port.port))))
        seen.add((port.protocol, port.port))
    return errors


def _validate_source_ranges(service: Service, old: Service | None) -> FieldErrors:
    """Validate a load balancer's source ranges, from the field or else the annotation."""
    spec, annotations = service.spec, service.metadata.annotations
    errors: FieldErrors = []
    balanced = spec.type == "LoadBalancer"
    if spec.load_balancer_source_ranges:
        path = _SPEC.child("LoadBalancerSourceRanges")
        if not balanced:
            errors.append(forbidden(path, _ONLY_BALANCED))
        kept = {one.strip() for one in old.spec.load_balancer_source_ranges} if old is not None else set()
        for index, one in enumerate(spec.load_balancer_source_ranges):
            if one.strip() not in kept:
                errors += _validate_range(one.strip(), path.index(index))
    elif _RANGES in annotations:
        path = METADATA.child("annotations").key(_RANGES)
        if not balanced:
            errors.append(forbidden(path, _ONLY_BALANCED))
        text = annotations[_RANGES].strip()
        if text and (old is None or old.metadata.annotations.get(_RANGES) != annotations[_RANGES]):
            for one in text.split(","):
                errors += _validate_range(one.strip(), path)
    return errors


def _validate_range(text: str, path: FieldPath) -> FieldErrors:
    return [invalid(path, text, message) for message in check_legacy_cidr(text, strict=True)]


def _validate_balancer(service: Service) -> FieldErrors:
    spec = service.spec
    errors: FieldErrors = []
    if spec.type == "LoadBalancer":
        if spec.load_balancer_class is not None:
            errors += validate_qualified_name(spec.load_balancer_class, _SPEC.child("loadBalancerClass"))
        return errors
    if spec.allocate_load_balancer_node_ports is not None:
        errors.append(forbidden(_SPEC.child("allocateLoadBalancerNodePorts"), _ONLY_BALANCED))
    if spec.load_balancer_class is not None:
        errors.append(forbidden(_SPEC.child("loadBalancerClass"), _ONLY_BALANCED))
    return errors


def _needs_health_check(service: Service) -> bool:
    return service.spec.type == "LoadBalancer" and service.spec.external_traffic_policy == "Local"


def _validate_external_traffic(service: Service) -> FieldErrors:
    spec = service.spec
    errors: FieldErrors = []
    policy, at = spec.external_traffic_policy, _SPEC.child("externalTrafficPolicy")
    if spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and spec.external_ips):
        errors += validate_enum(policy, _TRAFFIC, at)
    elif policy:
        errors.append(invalid(at, policy, "may only be set for externally-accessible services"))
    port, at = spec.health_check_node_port, _SPEC.child("healthCheckNodePort")
    if not _needs_health_check(service):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        return [*errors, invalid(at, port, detail)] if port else errors
    # The allocator sets a missing port.
    return errors + [invalid(at, port, message) for message in check_port_number(port)] if port else errors


def _validate_create(service: Service) -> FieldErrors:
    return _validate_service(service, None)


def _validate_update(new: Service, old: Service) -> FieldErrors:
    errors = validate_address_changes(new, old)
    both = new.spec.type == old.spec.type == "LoadBalancer"
    if both and new.spec.load_balancer_class != old.spec.load_balancer_class:
        at = _SPEC.child("loadBalancerClass")
        errors.append(invalid(at, new.spec.load_balancer_class, "may not change once set"))
    checked = _needs_health_check(new) and _needs_health_check(old)
    if checked and new.spec.health_check_node_port != old.spec.health_check_node_port:
        errors.append(forbidden(_SPEC.child("healthCheckNodePort"), "field is immutable"))
    return errors + _validate_service(new, old)


def _validate_status(new: Service, old: Service) -> FieldErrors:
    path = FieldPath("status").child("loadBalancer", "ingress")
    ingresses = new.status.load_balancer.ingress
    if ingresses and new.spec.type != "LoadBalancer":
        return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    kept = tuple(one.ip for one in old.status.load_balancer.ingress if one.ip)
    errors: FieldErrors = []
    for index, ingress in enumerate(ingresses):
        errors += _validate_ingress(ingress, kept, path.index(index))
    return errors


def _validate_ingress(ingress: LoadBalancerIngress, kept: tuple[str, ...], path: FieldPath) -> FieldErrors:
    errors = validate_legacy_ip(ingress.ip, path.child("ip"), kept) if ingress.ip else []
    at = path.child("ipMode")
    # Defaults set the mode of an address.
    if ingress.ip_mode is not None and not ingress.ip:
        errors.append(forbidden(at, "may not be specified when `ip` is not set"))
    elif ingress.ip_mode not in (None, *_IP_MODES):
        errors.append(not_supported(at, ingress.ip_mode, _IP_MODES))
    if ingress.hostname:
        errors += validate_dns_subdomain(ingress.hostname, path.child("hostname"))
        if parse_ip(ingress.hostname) is not None:
            detail = "must be a DNS name, not an IP address"
            errors.append(invalid(path.child("hostname"), ingress.hostname, detail))
    return errors


SERVICE = ValidationRules(_validate_create, _validate_update, {"status": _validate_status})
