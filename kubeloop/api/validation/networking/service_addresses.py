# SPDX-License-Identifier: Apache-2.0
"""Validation of a Service's cluster IPs and IP families, and of their changes."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
)
from kubeloop.api.validation.shared.scalars import validate_legacy_ip

_SPEC: Final = FieldPath("spec")
_IPS: Final = _SPEC.child("clusterIPs")
_FAMILIES: Final = _SPEC.child("ipFamilies")
_POLICY: Final = _SPEC.child("ipFamilyPolicy")
_KNOWN_FAMILIES: Final = ("IPv4", "IPv6")
_KNOWN_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FIXED: Final = "may not change once set"


def is_headless(service: Service) -> bool:
    """Return True if the service is headless."""
    return service.spec.cluster_ips == ("None",)


def validate_addresses(service: Service, old: Service | None) -> FieldErrors:
    """Validate the cluster IPs and IP families of a service."""
    spec = service.spec
    if spec.type == "ExternalName":
        return []
    errors: FieldErrors = []
    # The allocator has added clusterIP to clusterIPs, and kept the addresses that an update omits.
    if spec.cluster_ip and spec.cluster_ips and spec.cluster_ips[0] != spec.cluster_ip:
        errors.append(invalid(_IPS, spec.cluster_ips, "first value must match `clusterIP`"))
    elif not spec.cluster_ip and spec.cluster_ips:
        errors.append(invalid(_IPS, spec.cluster_ips, "must be empty when `clusterIP` is not specified"))
    for index, family in enumerate(spec.ip_families):
        if family not in _KNOWN_FAMILIES:
            errors.append(not_supported(_FAMILIES.index(index), family, _KNOWN_FAMILIES))
        if family in spec.ip_families[:index]:
            errors.append(duplicate(_FAMILIES.index(index), family))
    if spec.ip_family_policy is not None and spec.ip_family_policy not in _KNOWN_POLICIES:
        errors.append(not_supported(_POLICY, spec.ip_family_policy, _KNOWN_POLICIES))
    wrong = _validate_each(spec.cluster_ips, old.spec.cluster_ips if old is not None else ())
    errors += wrong
    if len(spec.cluster_ips) > 2:
        errors.append(invalid(_IPS, spec.cluster_ips, "may only hold up to 2 values"))
    # With malformed addresses, further errors would only confuse.
    return errors if wrong else errors + _validate_families(service)


def _validate_each(addresses: tuple[str, ...], kept: tuple[str, ...]) -> FieldErrors:
    errors: FieldErrors = []
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                errors.append(invalid(_IPS, addresses, "'None' must be the first and only value"))
            continue
        errors += validate_legacy_ip(address, _IPS.index(index), kept)
    return errors


def _validate_families(service: Service) -> FieldErrors:
    addresses = service.spec.cluster_ips
    versions = [_version(address) for address in addresses]
    errors: FieldErrors = []
    if len(addresses) > 1 and set(versions) != {4, 6}:
        errors.append(invalid(_IPS, addresses, "may specify no more than one IP for each IP family"))
    if is_headless(service):
        return errors
    for index, (address, family) in enumerate(zip(addresses, service.spec.ip_families, strict=False)):
        if family in _KNOWN_FAMILIES and versions[index] != int(family[-1]):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(_IPS.index(index), address, detail))
    return errors


def _version(address: str) -> int:
    parsed = parse_ip(address)
    return parsed.version if parsed is not None else 0


def validate_address_changes(new: Service, old: Service) -> FieldErrors:
    """Validate changes of cluster IPs and families: the secondary may come and go, the primary is fixed."""
    if "ExternalName" in (new.spec.type, old.spec.type):
        return []
    headless = is_headless(new), is_headless(old)
    errors: FieldErrors = [] if all(headless) else _validate_ip_changes(new, old)
    return errors if any(headless) else errors + _validate_family_changes(new, old)


def _validate_ip_changes(new: Service, old: Service) -> FieldErrors:
    after, before = new.spec.cluster_ips, old.spec.cluster_ips
    if len(after) == len(before):
        changed = [index for index, address in enumerate(before) if address != after[index]]
        return [invalid(_IPS.index(index), _shown(after), _FIXED) for index in changed]
    errors: FieldErrors = []
    if after and before and after[0] != before[0]:
        errors.append(invalid(_IPS.index(0), _shown(after), _FIXED))
    return errors


def _validate_family_changes(new: Service, old: Service) -> FieldErrors:
    after, before = new.spec.ip_families, old.spec.ip_families
    at = _FAMILIES.index(0)
    if len(after) == len(before):
        return [invalid(at, _shown(after), _FIXED)] if after != before else []
    errors: FieldErrors = []
    if after and before and after[0] != before[0]:
        # Upstream shows the addresses here, not the families.
        errors.append(invalid(at, _shown(new.spec.cluster_ips), _FIXED))
    return errors


def _shown(values: tuple[str, ...]) -> Any:
    return values or None
