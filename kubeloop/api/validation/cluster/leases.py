"""Validation of leases."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid, not_supported
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_nonnegative, validate_qualified_name

_SPEC: Final = FieldPath("spec")
_STRATEGIES: Final = ("OldestEmulationVersion",)


def _validate_lease(obj: Lease) -> FieldErrors:
    spec = obj.spec
    errors: FieldErrors = []
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        at = _SPEC.child("leaseDurationSeconds")
        errors.append(invalid(at, spec.lease_duration_seconds, "must be greater than 0"))
    errors += validate_nonnegative(spec.lease_transitions, _SPEC.child("leaseTransitions"))
    if spec.strategy is not None:
        errors += validate_strategy(spec.strategy, _SPEC.child("strategy", "strategy"))
    if spec.preferred_holder and not spec.strategy:
        detail = "may only be specified if `strategy` is defined"
        errors.append(forbidden(_SPEC.child("preferredHolder"), detail))
    return errors


def validate_strategy(strategy: str, path: FieldPath) -> FieldErrors:
    """Validate an election strategy: one of Kubernetes' own, or a custom one with a domain prefix."""
    if "/" in strategy:
        return validate_qualified_name(strategy, path)
    return [] if strategy in _STRATEGIES else [not_supported(path, strategy, _STRATEGIES)]


def _validate_update(new: Lease, old: Lease) -> FieldErrors:
    return _validate_lease(new)


LEASE = ValidationRules(_validate_lease, _validate_update)
