# SPDX-License-Identifier: Apache-2.0
"""Validation of compute resources: names, quantities, requests against limits, and device claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import lru_cache
from typing import Final

from kubeloop.api.generated.core_v1 import ResourceClaim, ResourceRequirements
from kubeloop.api.meta.field_path import (
    ErrorType,
    FieldError,
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.scalars.quantity import QuantityError, parse_quantity
from kubeloop.api.validation.shared.scalars import NOT_NEGATIVE, validate_dns_label

HUGE_PAGES: Final = "hugepages-"
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_REQUESTS: Final = "requests."
_COUNTED: Final = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
CONTAINER_RESOURCES: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_COMPUTE: Final = frozenset(
    f"{side}{name}" for side in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
)
QUOTA_RESOURCES: Final = _COMPUTE | _COUNTED | {"requests.storage"}
_STANDARD: Final = QUOTA_RESOURCES | {"storage"}
_USUAL: Final = frozenset(("cpu", "memory"))
_AMOUNT_KEPT: Final = 32
_POD_LEVEL: Final = ("cpu", "memory")

NameRule = Callable[[str, FieldPath], FieldErrors]


@lru_cache(1024)
def is_extended_resource(name: str) -> bool:
    """Return True for an extended resource, which is not defined by Kubernetes."""
    if is_native_resource(name) or name.startswith(_REQUESTS):
        return False
    return not check_qualified_name(_REQUESTS + name)


def is_native_resource(name: str) -> bool:
    """Return True for a resource of Kubernetes itself."""
    return "/" not in name or _NATIVE_DOMAIN in name


def is_overcommit_allowed(name: str) -> bool:
    """Return True if limits of a resource may exceed its requests."""
    return is_native_resource(name) and not name.startswith(HUGE_PAGES)


def is_integer_resource(name: str) -> bool:
    """Return True if a resource is only available in whole units."""
    return name in _COUNTED or is_extended_resource(name)


def is_standard_quota_resource(name: str) -> bool:
    """Return True for a resource that quotas know by name."""
    return name in QUOTA_RESOURCES or name.startswith((HUGE_PAGES, _REQUESTS + HUGE_PAGES))


def validate_resource_name(name: str, path: FieldPath) -> FieldErrors:
    """Validate a resource name."""
    if errors := [invalid(path, name, message) for message in check_qualified_name(name)]:
        return errors
    if "/" in name or name in _STANDARD or name.startswith((HUGE_PAGES, _REQUESTS + HUGE_PAGES)):
        return []
    return [invalid(path, name, "must be a standard resource type or fully qualified")]


def validate_container_resource_name(name: str, path: FieldPath) -> FieldErrors:
    """Validate the name of a resource that containers request."""
    if name in CONTAINER_RESOURCES:
        return []
    errors = validate_resource_name(name, path)
    if "/" not in name:
        if not name.startswith(HUGE_PAGES):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native_resource(name) and not is_extended_resource(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def validate_pod_resource_name(name: str, path: FieldPath) -> FieldErrors:
    """Validate the name of a resource that is requested at pod level."""
    errors = validate_resource_name(name, path)
    if errors or name in _POD_LEVEL or name.startswith(HUGE_PAGES):
        return errors
    return [not_supported(path, name, ("cpu", HUGE_PAGES, "memory"))]


@lru_cache(maxsize=4096)
def is_valid_amount(name: str, amount: str) -> bool:
    """Return True if a resource amount is valid. Cached: nodes report the same amounts with every change."""
    quantity = parse_quantity(amount)
    return quantity.sign() >= 0 and not (is_integer_resource(name) and quantity.milli_value() % 1000)


def validate_amount(name: str, amount: str, path: FieldPath) -> FieldErrors:
    """Validate an amount: not negative, and whole for resources with whole units."""
    if is_valid_amount(name, amount):
        return []
    quantity = parse_quantity(amount)
    errors: FieldErrors = [invalid(path, amount, NOT_NEGATIVE)] if quantity.sign() < 0 else []
    if is_integer_resource(name) and quantity.milli_value() % 1000:
        errors.append(invalid(path, amount, "must be an integer"))
    return errors


def validate_requirements(
    resources: ResourceRequirements,
    claims: Set[str],
    path: FieldPath,
    name_rule: NameRule = validate_container_resource_name,
) -> FieldErrors:
    """Validate the resource requirements of a container or a pod."""
    limits, requests = resources.limits, resources.requests
    errors: FieldErrors = []
    usual = not resources.claims and _is_usual(limits) and _is_usual(requests)
    if usual and _are_fine(tuple(limits.items()), tuple(requests.items())):
        return errors
    if limits:
        errors += validate_amounts(limits, path.child("limits"), name_rule)
    if requests:
        errors += validate_amounts(requests, path.child("requests"), name_rule)
        errors += _validate_against_limits(requests, limits, path)
    names = limits.keys() | requests.keys()
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if resources.claims:
        errors += validate_claim_names(resources.claims, claims, path.child("claims"))
    return errors


def _is_usual(amounts: Mapping[str, str]) -> bool:
    """Return True for amounts of cpu and memory only, which are simple to check and worth caching."""
    if not amounts:
        return True
    return amounts.keys() <= _USUAL and max(map(len, amounts.values())) <= _AMOUNT_KEPT


@lru_cache(4096)
def _are_fine(limits: tuple[tuple[str, str], ...], requests: tuple[tuple[str, str], ...]) -> bool:
    most, wanted = dict(limits), dict(requests)
    errors = _validate_against_limits(wanted, most, FieldPath(""))
    for name, amount in limits + requests:
        errors += validate_amount(name, amount, FieldPath(""))
    return not errors


def validate_amounts(amounts: Mapping[str, str], path: FieldPath, name_rule: NameRule) -> FieldErrors:
    """Validate the names and amounts of requests or limits."""
    errors: FieldErrors = []
    for name, amount in amounts.items():
        at = path.key(name)
        errors += name_rule(name, at) + validate_amount(name, amount, at)
        if name.startswith(HUGE_PAGES) and not _is_whole_pages(name, amount):
            errors.append(invalid(at, amount, f"{amount} is not positive integer multiple of {name}"))
    return errors


def _is_whole_pages(name: str, amount: str) -> bool:
    try:
        page = parse_quantity(name.removeprefix(HUGE_PAGES))
    except QuantityError:
        return False
    if page.sign() <= 0 or page.milli_value() % 1000:
        return False
    return parse_quantity(amount).value() % page.value() == 0


def _validate_against_limits(requests: Mapping[str, str], limits: Mapping[str, str], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not is_overcommit_allowed(name):
                detail = "Limit must be set for non overcommitable resources"
                errors.append(required(path.child("limits"), detail))
        elif amount != limit:
            wanted, most = parse_quantity(amount), parse_quantity(limit)
            if wanted != most and not is_overcommit_allowed(name):
                detail = f"must be equal to {name} limit of {limit}"
                errors.append(invalid(path.child("requests"), amount, detail))
            elif wanted > most:
                detail = f"must be less than or equal to {name} limit of {limit}"
                errors.append(invalid(path.child("requests"), amount, detail))
    return errors


def validate_claim_names(claims: tuple[ResourceClaim, ...], known: Set[str], path: FieldPath) -> FieldErrors:
    """Validate a container's claims: each claim of the pod once, as a whole or by request."""
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        at = path.index(index)
        if not claim.name:
            errors.append(required(at))
            continue
        if claim.name in seen:
            errors.append(duplicate(at, claim.name))
        else:
            errors += _note_claim(claim, seen, at)
        if claim.name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(FieldError(ErrorType.NOT_FOUND, at, claim.name, detail))
    return errors


def _note_claim(claim: ResourceClaim, seen: set[str], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    key = claim.name
    if claim.request:
        errors += validate_dns_label(claim.request, path.child("request"))
        key = f"{claim.name}/{claim.request}"
    if key in seen:
        errors.append(duplicate(path, key))
    elif not claim.request:
        errors += [duplicate(path, claim.name) for other in seen if other.partition("/")[0] == claim.name]
    seen.add(key)
    return errors
