"""Errors of the checks that upstream generates from its types: they follow all others, in words of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.meta.field_path import FieldError, FieldErrors, Path, invalid
from kubeloop.api.validation.shared.scalars import IMMUTABLE


class GeneratedError(FieldError, frozen=True):
    """An error that upstream's generated checks find."""


def generated(errors: Iterable[FieldError]) -> FieldErrors:
    """The same errors, marked as found by generated checks."""
    return [GeneratedError(error.type, error.path, error.value, error.detail) for error in errors]


def generated_last(errors: FieldErrors) -> FieldErrors:
    """Errors in the order upstream tells them: first those of its handwritten rules."""
    return sorted(errors, key=lambda error: isinstance(error, GeneratedError)) if errors else errors


def immutable(new: Any, old: Any, path: Path) -> FieldErrors:
    """A field that can't change; the refused value is not shown."""
    return [] if new == old else generated([invalid(path, None, IMMUTABLE)])
