# SPDX-License-Identifier: Apache-2.0
"""Validation of pod-level resources against those of the containers."""

from __future__ import annotations

from collections.abc import Mapping, Set

from kubeloop.api.generated.core_v1 import Container, PodSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.validation.pods.containers.compute_resources import (
    HUGE_PAGES,
    validate_pod_resource_name,
    validate_requirements,
)

Amounts = dict[str, Quantity]


def validate_pod_resources(spec: PodSpec, claims: Set[str], path: FieldPath) -> FieldErrors:
    """Validate pod-level resources."""
    resources = spec.resources
    if resources is None:
        return []
    at = path.child("resources")
    if spec.os is not None and spec.os.name == "windows":
        return [forbidden(at, "may not be set for a windows pod")]
    errors: FieldErrors = []
    if resources.claims:
        errors.append(forbidden(at.child("claims"), "claims may not be set for Resources at pod-level"))
    errors += validate_requirements(resources, claims, at, validate_pod_resource_name)
    errors += _enough(resources.requests, _aggregate(spec, "requests"), "requests", at)
    limits = {name: amount for name, amount in _aggregate(spec, "limits").items() if name.startswith(HUGE_PAGES)}
    errors += _enough(resources.limits, limits, "limits", at)
    for index, container in enumerate(spec.containers or ()):
        for name, amount in container.resources.limits.items():
            most = resources.limits.get(name)
            if most is not None and parse_quantity(amount) > parse_quantity(most):
                where = at.child("containers").index(index).key(name).child("limits")
                errors.append(invalid(where, amount, f"must be less than or equal to pod limits of {most}"))
    return errors


def _enough(given: Mapping[str, str], needed: Amounts, side: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for name, amount in needed.items():
        if name in given and amount > parse_quantity(given[name]):
            detail = f"must be greater than or equal to aggregate container {side} of {amount}"
            errors.append(invalid(path.child(side).key(name), given[name], detail))
    return errors


def _aggregate(spec: PodSpec, side: str) -> Amounts:
    """Return the containers' peak demand: sidecars run beside every container after them."""
    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, _amounts(container, side))
    peak: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.init_containers:
        amounts = _amounts(container, side)
        if container.restart_policy == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
        else:
            _add(amounts, sidecars)
            _raise(peak, amounts)
    _raise(total, peak)
    return total


def _amounts(container: Container, side: str) -> Amounts:
    return {name: parse_quantity(amount) for name, amount in getattr(container.resources, side).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount
