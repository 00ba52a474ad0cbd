# SPDX-License-Identifier: Apache-2.0
"""Validation of Endpoints and their addresses."""

from __future__ import annotations

from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated.core_v1 import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required
from kubeloop.api.meta.name_rules import check_port_number
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    validate_dns_label,
    validate_dns_subdomain,
    validate_enum,
    validate_legacy_ip,
    validate_qualified_name,
)

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_SUBSETS: Final = FieldPath("subsets")


def validate_endpoint_ip(value: str, path: FieldPath) -> FieldErrors:
    """Validate an address that other machines can reach."""
    address = parse_ip(value)
    if address is None:
        return [invalid(path, value, "must be a valid IP address")]
    problems: list[str] = []
    if address.is_unspecified:
        problems.append(f"may not be unspecified ({value})")
    if address.is_loopback:
        problems.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        problems.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(str(address)):
        problems.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return [invalid(path, value, problem) for problem in problems]


def _is_link_local_multicast(address: str) -> bool:
    # The second byte's low half is the scope of an IPv6 multicast address; 2 is the link.
    return address.startswith("224.0.0.") or (address.startswith("ff") and address[3:5] == "2:")


def _validate_subset(subset: EndpointSubset, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not subset.addresses and not subset.not_ready_addresses:
        errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
    for index, address in enumerate(subset.addresses):
        errors += _validate_address(address, path.child("addresses").index(index))
    for index, address in enumerate(subset.not_ready_addresses):
        errors += _validate_address(address, path.child("notReadyAddresses").index(index))
    for index, port in enumerate(subset.ports):
        errors += _validate_port(port, len(subset.ports) > 1, path.child("ports").index(index))
    return errors


def _validate_address(address: EndpointAddress, path: FieldPath) -> FieldErrors:
    errors = validate_legacy_ip(address.ip, path.child("ip"))
    if address.hostname:
        errors += validate_dns_label(address.hostname, path.child("hostname"))
    if address.node_name is not None:
        errors += validate_dns_subdomain(address.node_name, path.child("nodeName"))
    return errors + validate_endpoint_ip(address.ip, path.child("ip"))


def _validate_port(port: EndpointPort, needs_name: bool, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if port.name:
        errors += validate_dns_label(port.name, path.child("name"))
    elif needs_name:
        errors.append(required(path.child("name")))
    errors += [invalid(path.child("port"), port.port, message) for message in check_port_number(port.port)]
    errors += validate_enum(port.protocol, PROTOCOLS, path.child("protocol"))
    if port.app_protocol is not None:
        errors += validate_qualified_name(port.app_protocol, path.child("appProtocol"))
    return errors


def _validate_endpoints(obj: Endpoints) -> FieldErrors:
    errors: FieldErrors = []
    for index, subset in enumerate(obj.subsets):
        errors += _validate_subset(subset, _SUBSETS.index(index))
    return errors


def _validate_update(new: Endpoints, old: Endpoints) -> FieldErrors:
    errors = _validate_endpoints(new)
    return [] if errors and is_semantically_equal(new.subsets, old.subsets) else errors


ENDPOINTS = ValidationRules(_validate_endpoints, _validate_update)
