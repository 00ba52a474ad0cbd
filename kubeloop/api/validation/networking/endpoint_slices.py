# SPDX-License-Identifier: Apache-2.0
"""Validation of EndpointSlices: addresses of one family, ports, hints."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final

from kubeloop.api.addresses import check_ip, check_legacy_ip, parse_ip
from kubeloop.api.generated import discovery_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubeloop.api.meta.name_rules import (
    Check,
    check_dns1123_subdomain,
    check_label_value,
    validate_fully_qualified_domain_name,
)
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last, validate_immutable
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    check_errors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_enum,
    validate_qualified_name,
)

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = frozenset(("TCP", "UDP", "SCTP"))
_MAX_ADDRESSES: Final = 100
_MAX_PORTS: Final = 20000
_MAX_ENDPOINTS: Final = 1000
_MAX_HINTS: Final = 8
_LINK_LOCAL_MULTICAST: Final = (ip_network("224.0.0.0/24"), ip_network("ff02::/16"))


def _validate_create(obj: discovery_v1.EndpointSlice) -> FieldErrors:
    return sort_generated_last(_validate_type(obj) + _validate_ports(obj) + _validate_endpoints(obj))


def _validate_update(new: discovery_v1.EndpointSlice, old: discovery_v1.EndpointSlice) -> FieldErrors:
    # A changed type is an error that ends declarative validation of this field.
    changed = validate_immutable(new.address_type, old.address_type, FieldPath("addressType"))
    errors = changed + _validate_type(new, is_declared=not changed) + _validate_ports(new)
    # Stored endpoints are validated again only when they change.
    if new.endpoints != old.endpoints:
        errors += _validate_endpoints(new)
    return sort_generated_last(errors)


def _validate_type(obj: discovery_v1.EndpointSlice, is_declared: bool = True) -> FieldErrors:
    errors = validate_enum(obj.address_type, _ADDRESS_TYPES, FieldPath("addressType"))
    return mark_generated(errors) if is_declared else errors


def _validate_ports(obj: discovery_v1.EndpointSlice) -> FieldErrors:
    errors: FieldErrors = []
    ports, path = obj.ports or (), FieldPath("ports")
    if len(ports) > _MAX_PORTS:
        return [*errors, too_many(path, len(ports), _MAX_PORTS)]
    names: set[str] = set()
    for index, port in enumerate(ports):
        errors += _validate_port(port, names, path.index(index))
    return errors


def _validate_port(port: discovery_v1.EndpointPort, names: set[str], path: FieldPath) -> FieldErrors:
    name = port.name or ""
    errors = validate_dns_label(name, path.child("name")) if name else []
    if name in names:
        errors.append(duplicate(path.child("name"), name))
    names.add(name)
    if port.protocol not in (None, *_PROTOCOLS):
        errors.append(not_supported(path.child("protocol"), port.protocol, _PROTOCOLS))
    if port.app_protocol is not None:
        errors += validate_qualified_name(port.app_protocol, path.child("appProtocol"))
    return errors


def _validate_endpoints(obj: discovery_v1.EndpointSlice) -> FieldErrors:
    endpoints, path = obj.endpoints or (), FieldPath("endpoints")
    if len(endpoints) > _MAX_ENDPOINTS:
        return [too_many(path, len(endpoints), _MAX_ENDPOINTS)]
    errors: FieldErrors = []
    for index, endpoint in enumerate(endpoints):
        errors += _validate_endpoint(endpoint, obj.address_type, path.index(index))
    return errors


def _validate_endpoint(endpoint: discovery_v1.Endpoint, address_type: str, path: FieldPath) -> FieldErrors:
    errors = _validate_addresses(endpoint.addresses or (), address_type, path.child("addresses"))
    if endpoint.node_name is not None:
        errors += validate_dns_subdomain(endpoint.node_name, path.child("nodeName"))
    if endpoint.hostname is not None:
        errors += validate_dns_label(endpoint.hostname, path.child("hostname"))
    if endpoint.hints is not None:
        errors += _validate_hints(endpoint.hints, path.child("hints"))
    return errors


def _validate_addresses(addresses: tuple[str, ...], address_type: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not addresses:
        errors += mark_generated([required(path)])
    elif len(addresses) > _MAX_ADDRESSES:
        errors += mark_generated([too_many(path, len(addresses), _MAX_ADDRESSES)])
    for index, address in enumerate(addresses):
        at = path.index(index)
        if address_type == "FQDN":
            errors += validate_fully_qualified_domain_name(at, address)
        elif address_type in ("IPv4", "IPv6"):
            errors += _validate_address(address, address_type, at, path)
    return errors


def _validate_address(address: str, family: str, path: FieldPath, all_addresses: FieldPath) -> FieldErrors:
    parsed = parse_ip(address)
    messages = check_legacy_ip(address, strict=True) if family == "IPv4" else check_ip(address)
    if messages or parsed is None:
        return [invalid(path, address, message) for message in messages]
    errors: FieldErrors = []
    if f"IPv{parsed.version}" != family:
        errors.append(invalid(all_addresses, address, f"must be an {family} address"))
    return errors + validate_endpoint_ip(address, parsed, path)


def validate_endpoint_ip(text: str, address: IPv4Address | IPv6Address, path: FieldPath) -> FieldErrors:
    """Validate an address that is reachable from other machines."""
    return [invalid(path, text, message) for message in _unreachable(text, address)]


def _unreachable(text: str, address: IPv4Address | IPv6Address) -> Iterator[str]:
    if address.is_unspecified:
        yield f"may not be unspecified ({text})"
    if address.is_loopback:
        yield "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        yield "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if any(address in network for network in _LINK_LOCAL_MULTICAST):
        yield "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"


def _validate_hints(hints: discovery_v1.EndpointHints, path: FieldPath) -> FieldErrors:
    zones = tuple(zone.name for zone in hints.for_zones)
    nodes = tuple(node.name for node in hints.for_nodes)
    errors = _validate_hinted(zones, check_label_value, path.child("forZones"))
    if len(zones) > _MAX_HINTS:
        return errors
    return errors + _validate_hinted(nodes, check_dns1123_subdomain, path.child("forNodes"))


def _validate_hinted(names: tuple[str, ...], check: Check, path: FieldPath) -> FieldErrors:
    if len(names) > _MAX_HINTS:
        return [too_many(path, len(names), _MAX_HINTS)]
    errors: FieldErrors = []
    for index, name in enumerate(names):
        at = path.index(index).child("name")
        if name in names[:index]:
            errors.append(duplicate(at, name))
        errors += check_errors(check, name, at)
    return errors


ENDPOINT_SLICE = ValidationRules(_validate_create, _validate_update)
