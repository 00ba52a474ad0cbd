# SPDX-License-Identifier: Apache-2.0
"""IP families and policy of a Service: from its spec, its previous spec and the cluster. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Service, ServiceSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.strategy.services import needs_cluster_ip
from kubeloop.api.validation.networking.service_addresses import validate_addresses
from kubeloop.apiserver.registry.allocation.service_cidrs import NONE, family_of

SINGLE: Final = "SingleStack"
PREFER: Final = "PreferDualStack"
REQUIRE: Final = "RequireDualStack"
_OTHER: Final = {"IPv4": "IPv6", "IPv6": "IPv4"}
_SPEC: Final = FieldPath("spec")
_POLICY: Final = _SPEC.child("ipFamilyPolicy")


def default_ip_families(new: Service, old: Service | None, configured: Sequence[str]) -> None:
    """Set policy and families; `configured` are the cluster's, the default first. Raises `Invalid`."""
    if not needs_cluster_ip(new.spec) or (old is not None and is_unchanged_prefer_dual_stack(new.spec, old.spec)):
        return
    _default_policy(new.spec, old.spec if old is not None else None)
    _refuse(new, validate_addresses(new, old))
    found = _follow_policy(new.spec, old.spec) if old is not None else []
    found += _check_single(new.spec)
    found += _infer_from_addresses(new.spec, configured)
    _refuse(new, found)
    if new.spec.cluster_ip == NONE and not new.spec.selector:
        _complete(new.spec, configured[0], both=True)  # headless without selector: endpoints of any family are possible
        return
    _refuse(new, _check_configured(new.spec, configured))
    _complete(new.spec, configured[0], both=len(configured) == 2)


def is_unchanged_prefer_dual_stack(spec: ServiceSpec, before: ServiceSpec) -> bool:
    """Return True if PreferDualStack is unchanged: later changes of the cluster don't change its addresses."""
    return (
        spec.ip_family_policy == PREFER
        and before.ip_family_policy in (None, PREFER)
        and spec.type == before.type
        and spec.type in ("ClusterIP", "NodePort", "LoadBalancer")
        and spec.cluster_ips == before.cluster_ips
        and spec.ip_families == before.ip_families
    )


def _refuse(service: Service, found: FieldErrors) -> None:
    if found:
        raise errors.invalid("", "Service", service.metadata.name, found)


def _default_policy(spec: ServiceSpec, before: ServiceSpec | None) -> None:
    if spec.ip_family_policy is not None:
        return
    if before is not None and before.ip_family_policy is not None:
        policy = before.ip_family_policy
    elif spec.cluster_ip == NONE and not spec.selector:
        policy = REQUIRE
    else:
        policy = SINGLE
    force_setattr(spec, "ip_family_policy", policy)


def _follow_policy(spec: ServiceSpec, before: ServiceSpec) -> FieldErrors:
    """Drop the second of the unchanged lists on a change to SingleStack; return errors if it can't be dropped."""
    if spec.ip_family_policy == SINGLE:
        if spec.cluster_ips == before.cluster_ips:
            force_setattr(spec, "cluster_ips", spec.cluster_ips[:1])
        if spec.ip_families == before.ip_families:
            force_setattr(spec, "ip_families", spec.ip_families[:1])
        return []
    found: FieldErrors = []
    if 0 < len(spec.cluster_ips) < len(before.cluster_ips):
        detail = "must be 'SingleStack' to release the secondary cluster IP"
        found.append(invalid(_POLICY, spec.ip_family_policy, detail))
    if 0 < len(spec.ip_families) < len(before.ip_families):
        detail = "must be 'SingleStack' to release the secondary IP family"
        found.append(invalid(_POLICY, spec.ip_family_policy, detail))
    return found


def _check_single(spec: ServiceSpec) -> FieldErrors:
    if spec.ip_family_policy != SINGLE:
        return []
    plural = [("cluster IPs", spec.cluster_ips), ("IP families", spec.ip_families)]
    detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    return [invalid(_POLICY, SINGLE, detail.format(what)) for what, values in plural if len(values) == 2]


def _infer_from_addresses(spec: ServiceSpec, configured: Sequence[str]) -> FieldErrors:
    found: FieldErrors = []
    for index, address in enumerate(spec.cluster_ips):
        if address == NONE:
            break
        if index < len(spec.ip_families):
            continue
        family = family_of(address)
        if family in configured:
            force_setattr(spec, "ip_families", (*spec.ip_families, family))
        else:
            detail = f"{family} is not configured on this cluster"
            found.append(invalid(_SPEC.child("clusterIPs").index(index), spec.cluster_ips, detail))
    return found


def _check_configured(spec: ServiceSpec, configured: Sequence[str]) -> FieldErrors:
    found: FieldErrors = []
    if spec.ip_family_policy == REQUIRE and len(configured) < 2:
        found.append(invalid(_POLICY, REQUIRE, "this cluster is not configured for dual-stack services"))
    for index, family in enumerate(spec.ip_families):
        if family not in configured:
            found.append(invalid(_SPEC.child("ipFamilies").index(index), family, "not configured on this cluster"))
    return found


def _complete(spec: ServiceSpec, default: str, both: bool) -> None:
    families = spec.ip_families or (default,)
    if both and len(families) == 1 and spec.ip_family_policy != SINGLE:
        families = (families[0], _OTHER[families[0]])
    force_setattr(spec, "ip_families", families)
