# SPDX-License-Identifier: Apache-2.0
"""Errors of upstream's declarative validation: they follow all others and have their own wording."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.meta.field_path import FieldError, FieldErrors, FieldPath, invalid
from kubeloop.api.validation.shared.scalars import IMMUTABLE


class GeneratedError(FieldError, frozen=True):
    """Error of upstream's generated (declarative) validation."""


def mark_generated(errors: Iterable[FieldError]) -> FieldErrors:
    """Return the same errors, marked as those of declarative validation."""
    return [GeneratedError(error.type, error.path, error.value, error.detail) for error in errors]


def sort_generated_last(errors: FieldErrors) -> FieldErrors:
    """Sort errors in upstream's order: those of handwritten rules first."""
    return sorted(errors, key=lambda error: isinstance(error, GeneratedError)) if errors else errors


def split_generated(errors: FieldErrors) -> tuple[FieldErrors, FieldErrors]:
    """Return the errors of handwritten rules, and those of declarative validation."""
    generated: FieldErrors = [error for error in errors if isinstance(error, GeneratedError)]
    return ([error for error in errors if error not in generated] if generated else errors), generated


def validate_immutable(new: Any, old: Any, path: FieldPath) -> FieldErrors:
    """Validate that a field is unchanged; the rejected value is not shown."""
    return [] if new == old else mark_generated([invalid(path, None, IMMUTABLE)])
