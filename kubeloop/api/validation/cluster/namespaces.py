# SPDX-License-Identifier: Apache-2.0
"""Validation of namespaces: their finalizers and phases."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import Namespace
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.validation.shared.objectmeta import validate_finalizer_name
from kubeloop.api.validation.shared.rules import ValidationRules, accept_update

_FINALIZERS: Final = FieldPath("spec").child("finalizers")
_PHASE: Final = FieldPath("status").child("Phase")


def _validate_namespace(obj: Namespace) -> FieldErrors:
    errors: FieldErrors = []
    for finalizer in obj.spec.finalizers:
        errors += validate_finalizer_name(finalizer, _FINALIZERS)
    return errors


def _validate_status_update(new: Namespace, old: Namespace) -> FieldErrors:
    phase = new.status.phase
    if new.metadata.deletion_timestamp is None:
        if phase != "Active":
            return [invalid(_PHASE, phase, "may only be 'Active' if `deletionTimestamp` is empty")]
    elif phase != "Terminating":
        return [invalid(_PHASE, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")]
    return []


def _validate_finalize(new: Namespace, old: Namespace) -> FieldErrors:
    errors: FieldErrors = []
    for index, finalizer in enumerate(new.spec.finalizers):
        errors += validate_finalizer_name(finalizer, _FINALIZERS.index(index))
    return errors


NAMESPACE = ValidationRules(
    _validate_namespace,
    accept_update,
    {"status": _validate_status_update, "finalize": _validate_finalize},
)
