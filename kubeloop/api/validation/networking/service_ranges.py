# SPDX-License-Identifier: Apache-2.0
"""Validation of IPAddresses and ServiceCIDRs."""

from __future__ import annotations

from typing import Final

from kubeloop.api.addresses import check_cidr, parse_cidr
from kubeloop.api.generated import networking_v1
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required
from kubeloop.api.meta.name_rules import check_path_segment_name
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last, validate_immutable
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import IMMUTABLE, check_errors, validate_dns_subdomain

_PARENT: Final = FieldPath("spec").child("parentRef")
_CIDRS: Final = FieldPath("spec").child("cidrs")
_ONE_PER_FAMILY: Final = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def _validate_address(obj: networking_v1.IPAddress) -> FieldErrors:
    parent = obj.spec.parent_ref
    if parent is None:
        return mark_generated([required(_PARENT)])
    errors: FieldErrors = []
    if parent.group:
        errors += validate_dns_subdomain(parent.group, _PARENT.child("group"))
    for name, value in (("resource", parent.resource), ("name", parent.name)):
        if not value:
            errors += mark_generated([required(_PARENT.child(name))])
        else:
            errors += check_errors(check_path_segment_name, value, _PARENT.child(name))
    if parent.namespace:
        errors += check_errors(check_path_segment_name, parent.namespace, _PARENT.child("namespace"))
    return sort_generated_last(errors)


def _validate_address_update(new: networking_v1.IPAddress, old: networking_v1.IPAddress) -> FieldErrors:
    return _validate_address(new) + validate_immutable(new.spec.parent_ref, old.spec.parent_ref, _PARENT)


def _validate_range(obj: networking_v1.ServiceCIDR) -> FieldErrors:
    cidrs = obj.spec.cidrs
    if not cidrs:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors: FieldErrors = []
    for index, cidr in enumerate(cidrs):
        errors += check_errors(check_cidr, cidr, _CIDRS.index(index))
    families = [parsed[1].version for parsed in map(parse_cidr, cidrs) if parsed]
    if len(families) == 2 and families[0] == families[1]:
        errors.append(invalid(_CIDRS, cidrs, _ONE_PER_FAMILY))
    return errors


def _validate_range_update(new: networking_v1.ServiceCIDR, old: networking_v1.ServiceCIDR) -> FieldErrors:
    """Validate that an update at most adds a second CIDR, from single-stack to dual-stack."""
    after, before = new.spec.cidrs, old.spec.cidrs
    if len(after) == len(before):
        pairs = enumerate(zip(after, before, strict=True))
        return [invalid(_CIDRS.index(index), now, IMMUTABLE) for index, (now, was) in pairs if now != was]
    if len(before) == 1 and len(after) == 2:
        errors = [] if after[0] == before[0] else [invalid(_CIDRS.index(0), after[0], IMMUTABLE)]
        return errors + _validate_range(new)
    return [invalid(_CIDRS, after or None, IMMUTABLE)]


IP_ADDRESS = ValidationRules(_validate_address, _validate_address_update)
SERVICE_CIDR = ValidationRules(_validate_range, _validate_range_update)
