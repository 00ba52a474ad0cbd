# SPDX-License-Identifier: Apache-2.0
"""Validation of file paths inside volumes and on nodes."""

from __future__ import annotations

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid


def validate_no_backsteps(target: str, path: FieldPath) -> FieldErrors:
    """Validate that a path has no `..` element."""
    if ".." in target and ".." in target.split("/"):
        return [invalid(path, target, "must not contain '..'")]
    return []


def validate_local_descending_path(target: str, path: FieldPath) -> FieldErrors:
    """Validate a relative path that never leaves its directory."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return errors + validate_no_backsteps(target, path)


def validate_local_non_reserved_path(target: str, path: FieldPath) -> FieldErrors:
    """Validate a relative path that does not begin with `..`, which volume writers reserve."""
    errors = validate_local_descending_path(target, path)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors
