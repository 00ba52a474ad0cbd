"""Rules between a service's cluster addresses and its address families; allocation relies on them, so it asks first."""

from __future__ import annotations

from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.api.fields import FieldErrors, Path, duplicate, invalid, not_supported, required
from kubeloop.api.generated.core_v1 import Service, ServiceSpec
from kubeloop.api.validation.scalars import legacy_ip

NONE: Final = "None"  # the address of a headless service
_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_SPEC: Final = Path("spec")
_IPS: Final = _SPEC.child("clusterIPs")
_IP_FAMILIES: Final = _SPEC.child("ipFamilies")


def validate_cluster_addresses(new: Service, old: Service | None) -> FieldErrors:
    """Whether clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy fit together."""
    spec = new.spec
    if spec.type == "ExternalName":
        return []
    errors = [*_check_first(spec), *_check_families(spec)]
    policy = spec.ip_family_policy
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported(_SPEC.child("ipFamilyPolicy"), policy, _POLICIES))
    misplaced = _check_addresses(spec, old.spec.cluster_ips if old is not None else ())
    errors += misplaced
    if len(spec.cluster_ips) > 2:
        errors.append(invalid(_IPS, spec.cluster_ips, "may only hold up to 2 values"))
    return errors if misplaced else [*errors, *_check_match(spec)]


def _check_first(spec: ServiceSpec) -> FieldErrors:
    if not spec.cluster_ip:
        detail = "must be empty when `clusterIP` is not specified"
        return [invalid(_IPS, spec.cluster_ips, detail)] if spec.cluster_ips else []
    if not spec.cluster_ips:
        return [required(_IPS)]
    if spec.cluster_ips[0] != spec.cluster_ip:
        return [invalid(_IPS, spec.cluster_ips, "first value must match `clusterIP`")]
    return []


def _check_families(spec: ServiceSpec) -> FieldErrors:
    errors: FieldErrors = []
    for index, family in enumerate(spec.ip_families):
        if family not in _FAMILIES:
            errors.append(not_supported(_IP_FAMILIES.index(index), family, _FAMILIES))
        if family in spec.ip_families[:index]:
            errors.append(duplicate(_IP_FAMILIES.index(index), family))
    return errors


def _check_addresses(spec: ServiceSpec, kept: tuple[str, ...]) -> FieldErrors:
    errors: FieldErrors = []
    for index, address in enumerate(spec.cluster_ips):
        if index == 0 and address == NONE:
            if len(spec.cluster_ips) > 1:
                errors.append(invalid(_IPS, spec.cluster_ips, "'None' must be the first and only value"))
            continue
        errors += legacy_ip(address, _IPS.index(index), kept)
    return errors


def _check_match(spec: ServiceSpec) -> FieldErrors:
    if spec.cluster_ips == (NONE,):
        return []
    errors: FieldErrors = []
    found = [family_of(address) for address in spec.cluster_ips]
    if len(found) > 1 and len(set(found)) == 1:
        errors.append(invalid(_IPS, spec.cluster_ips, "may specify no more than one IP for each IP family"))
    for index, (family, wanted) in enumerate(zip(found, spec.ip_families, strict=False)):
        if wanted in _FAMILIES and family != wanted:
            detail = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(_IPS.index(index), spec.cluster_ips[index], detail))
    return errors


def family_of(address: str) -> str:
    """IPv4 or IPv6; empty for text that is no address."""
    parsed = parse_ip(address)
    return "" if parsed is None else f"IPv{parsed.version}"
