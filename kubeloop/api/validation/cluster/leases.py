# SPDX-License-Identifier: Apache-2.0
"""Validation of Leases and LeaseCandidates."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.coordination_v1beta1 import LeaseCandidate
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid, not_supported, required
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_nonnegative, validate_qualified_name, validate_unchanged

_SPEC: Final = FieldPath("spec")
_OLDEST: Final = "OldestEmulationVersion"
_STRATEGIES: Final = (_OLDEST,)
_NUMBER: Final = r"(0|[1-9]\d*)"
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMANTIC: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?", re.ASCII)
_NOT_SEMANTIC: Final = "must be a valid semantic version"
# Sort key of a version: numbers first, then release before prerelease, then the prerelease's identifiers.
_Rank = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]
_ZERO: Final[_Rank] = ((0, 0, 0), True, ())


def _validate_lease(obj: Lease) -> FieldErrors:
    spec = obj.spec
    errors: FieldErrors = []
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        at = _SPEC.child("leaseDurationSeconds")
        errors.append(invalid(at, spec.lease_duration_seconds, "must be greater than 0"))
    errors += validate_nonnegative(spec.lease_transitions, _SPEC.child("leaseTransitions"))
    if spec.strategy is not None:
        errors += _validate_strategy(spec.strategy, _SPEC.child("strategy", "strategy"))
    if spec.preferred_holder and not spec.strategy:
        detail = "may only be specified if `strategy` is defined"
        errors.append(forbidden(_SPEC.child("preferredHolder"), detail))
    return errors


def _validate_strategy(strategy: str, path: FieldPath) -> FieldErrors:
    """Validate an election strategy: one of Kubernetes' own, or a custom one with a domain prefix."""
    if "/" in strategy:
        return validate_qualified_name(strategy, path)
    return [] if strategy in _STRATEGIES else [not_supported(path, strategy, _STRATEGIES)]


def _validate_update(new: Lease, old: Lease) -> FieldErrors:
    return _validate_lease(new)


LEASE = ValidationRules(_validate_lease, _validate_update)


def _validate_candidate(obj: LeaseCandidate) -> FieldErrors:
    spec = obj.spec
    errors: FieldErrors = []
    if not spec.lease_name:
        errors.append(required(_SPEC.child("leaseName")))
    emulated, binary = _rank(spec.emulation_version), _rank(spec.binary_version)
    if spec.emulation_version and emulated is None:
        errors.append(invalid(_SPEC.child("emulationVersion"), spec.emulation_version, _NOT_SEMANTIC))
    at = _SPEC.child("binaryVersion")
    if not spec.binary_version:
        errors.append(required(at))
    elif binary is None:
        errors.append(invalid(at, spec.binary_version, _NOT_SEMANTIC))
    if spec.binary_version and spec.emulation_version and (binary or _ZERO) < (emulated or _ZERO):
        errors.append(invalid(at, spec.binary_version, "must be greater than or equal to `emulationVersion`"))
    return errors + _validate_choice(spec.strategy, (emulated or _ZERO) == _ZERO)


def _validate_choice(strategy: str, is_unversioned: bool) -> FieldErrors:
    if not strategy:
        return [required(_SPEC.child("strategy"))]
    errors: FieldErrors = []
    if strategy == _OLDEST and is_unversioned:
        detail = "must be specified when `strategy` is 'OldestEmulationVersion'"
        errors.append(required(_SPEC.child("emulationVersion"), detail))
    return errors + _validate_strategy(strategy, _SPEC.child("strategy", "strategy"))


def _validate_candidate_update(new: LeaseCandidate, old: LeaseCandidate) -> FieldErrors:
    return _validate_candidate(new) + validate_unchanged(
        new.spec.lease_name, old.spec.lease_name, _SPEC.child("leaseName")
    )


def _rank(version: str) -> _Rank | None:
    """Return the sort key of a semantic version; None if it is malformed."""
    found = _SEMANTIC.fullmatch(version)
    if found is None:
        return None
    parts = found[4].split(".") if found[4] else []
    if any(part.isdigit() and part != "0" and part.startswith("0") for part in parts):
        return None
    preview = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
    return tuple(int(found[index]) for index in (1, 2, 3)), not parts, preview


LEASE_CANDIDATE = ValidationRules(_validate_candidate, _validate_candidate_update)
